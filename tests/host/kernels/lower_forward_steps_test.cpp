#include <doctest/doctest.h>

#include <cmath>

#include "forward_support.hpp"
#include "support/oracle.hpp"

using namespace forward_test;

TEST_CASE("every candidate computes the same exact numbers over all operands and modes") {
  enum class Addend { None, Apart, InPlace };
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::LeakyReLU}) {
        for (const int bias : {0, 1, 2, 3}) {
          for (const Addend addend : {Addend::None, Addend::Apart, Addend::InPlace}) {
            for (const bool with_z : {false, true}) {
              for (const std::int64_t n : {std::int64_t{1}, std::int64_t{7}, kN}) {
                CAPTURE(trans_a);
                CAPTURE(trans_b);
                CAPTURE(act);
                CAPTURE(bias);
                CAPTURE(static_cast<int>(addend));
                CAPTURE(with_z);
                CAPTURE(n);
                const auto backend = fake_device::fresh_backend();
                const Matrix a = trans_a ? Matrix(kK, kM, 1) : Matrix(kM, kK, 2);
                const Matrix b = trans_b ? Matrix(n, kK, 1, 0, 2) : Matrix(kK, n, 3, 0, 2);
                const Matrix c(kM, n, 2, 0, 3);
                Matrix y(kM, n, 4);
                Matrix z(kM, n, 8);
                const Matrix biases[] = {Matrix(0, 0), Matrix(1, 1, 0, 0, 4), Matrix(1, n, 0, 0, 4),
                                         Matrix(kM, 1, 2, 0, 4)};
                GemmForward call = {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
                if (addend == Addend::Apart) call.C = c.tensor();
                if (addend == Addend::InPlace) call.C = y.tensor();
                if (bias > 0) call.bias = biases[bias].tensor();
                if (with_z) call.Z = z.tensor();
                call.attrs.trans_a = trans_a;
                call.attrs.trans_b = trans_b;
                call.attrs.act = act;
                call.attrs.leaky_slope = 0.5F;
                call.attrs.alpha = 2.0F;
                call.attrs.beta = addend == Addend::None ? 0.0F : 3.0F;

                const Task task = lower(*backend, call);
                for (const ai::Candidate& candidate : task.candidates) {
                  if (!candidate.applicable()) continue;
                  CAPTURE(candidate.name);
                  y.fill(std::nanf(""));
                  if (addend == Addend::InPlace) y.fill(-3.0F);
                  z.fill(std::nanf(""));
                  const oracle::Forward expected = oracle::forward(call);
                  fake_device::Runner runner;
                  REQUIRE(runner.run(candidate).ok());
                  bool right = y.padding_is_untouched() && z.padding_is_untouched();
                  for (std::int64_t m = 0; m < kM; ++m) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      const auto at = static_cast<std::size_t>(m * n + i);
                      right = right && y.at(m, i) == static_cast<float>(expected.y[at].value);
                      right = right &&
                              (!with_z || z.at(m, i) == static_cast<float>(expected.z[at].value));
                    }
                  }
                  CHECK(right);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("steps book exactly the bytes they read and write") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.bias = o.per_n.tensor();
  call.attrs.act = ActKind::ReLU;

  const auto same = [](const ai::MemoryRange& range, const Matrix& matrix) {
    const ai::MemoryRange wanted = ai::range_of(matrix.tensor());
    return range.begin == wanted.begin && range.rows == wanted.rows &&
           range.width == wanted.width && (range.rows == 1 || range.pitch == wanted.pitch);
  };
  SUBCASE("fused, without and with scratch of its own") {
    const Task task = lower(*backend, call);
    const ai::Step& plain = *fake_device::find(task, "lt_fused/0")->steps.at(0);
    REQUIRE(plain.reads().size() == 3);
    CHECK(same(plain.reads()[0], o.a));
    CHECK(same(plain.reads()[1], o.b));
    CHECK(same(plain.reads()[2], o.per_n));
    REQUIRE(plain.writes().size() == 1);
    CHECK(same(plain.writes()[0], o.y));

    const ai::Step& scratch = *fake_device::find(task, "lt_fused/1")->steps.at(0);
    REQUIRE(scratch.writes().size() == 2);
    const ai::MemoryRange& booked = scratch.writes()[1];
    CHECK(ai::symbolic::is_symbolic(reinterpret_cast<const void*>(booked.begin)));
    CHECK(booked.end() - booked.begin == 1 << 20);
    const ai::Step& other = *fake_device::find(task, "lt_epilogue/1")->steps.at(0);
    REQUIRE(other.writes().size() == 2);
    CHECK_FALSE(ai::overlaps(booked, other.writes()[1]));
  }
  SUBCASE("with the epilogue kernel, Z and C") {
    call.Z = o.z.tensor();
    call.C = o.c.tensor();
    call.attrs.beta = 1.0F;
    const Task task = lower(*backend, call);
    const ai::Candidate& candidate = *fake_device::find(task, "lt_epilogue/0");
    REQUIRE(candidate.steps.size() == 2);
    CHECK(candidate.steps[0]->reads().size() == 2);  // A and B: C is the epilogue's
    CHECK(same(candidate.steps[0]->writes()[0], o.z));
    REQUIRE(candidate.steps[1]->reads().size() == 3);
    CHECK(same(candidate.steps[1]->reads()[0], o.z));
    CHECK(same(candidate.steps[1]->reads()[1], o.c));
    CHECK(same(candidate.steps[1]->reads()[2], o.per_n));
    REQUIRE(candidate.steps[1]->writes().size() == 2);
    CHECK(ai::depends_on(*candidate.steps[1], *candidate.steps[0]));
  }
  SUBCASE("with the bias in the product: Z is written once, and nothing but it is read then") {
    call.Z = o.z.tensor();
    call.C = o.c.tensor();
    call.attrs.beta = 1.0F;
    const Task task = lower(*backend, call);
    const ai::Candidate& candidate = *fake_device::find(task, "lt_bias/0");
    REQUIRE(candidate.steps.size() == 2);
    CHECK(candidate.steps[0]->name() == "lt_bias Z");
    REQUIRE(candidate.steps[0]->reads().size() == 4);
    CHECK(same(candidate.steps[0]->reads()[2], o.c));
    CHECK(same(candidate.steps[0]->reads()[3], o.per_n));
    REQUIRE(candidate.steps[0]->writes().size() == 1);
    CHECK(same(candidate.steps[0]->writes()[0], o.z));
    REQUIRE(candidate.steps[1]->reads().size() == 1);
    CHECK(same(candidate.steps[1]->reads()[0], o.z));
    REQUIRE(candidate.steps[1]->writes().size() == 1);
    CHECK(same(candidate.steps[1]->writes()[0], o.y));
    CHECK(ai::depends_on(*candidate.steps[1], *candidate.steps[0]));
  }
  SUBCASE("with the bias in the product, without Z: the activation is in place") {
    call.attrs.act = ActKind::Tanh;
    const Task task = lower(*backend, call);
    const ai::Candidate& candidate = *fake_device::find(task, "lt_bias/0");
    CHECK(candidate.steps.at(0)->name() == "lt_bias Y");
    CHECK(same(candidate.steps[0]->writes()[0], o.y));
    REQUIRE(candidate.steps.at(1)->reads().size() == 1);
    CHECK(same(candidate.steps[1]->reads()[0], o.y));
    CHECK(same(candidate.steps[1]->writes()[0], o.y));
    REQUIRE(fake_device::Runner().run(candidate).ok());
    CHECK(fake_device::state().launches.back().small);
  }
  SUBCASE("beta = 0 reads no C [C3]") {
    call.C = o.c.tensor();
    const Task task = lower(*backend, call);
    for (const ai::Candidate& candidate : task.candidates) {
      for (const auto& step : candidate.steps) {
        for (const ai::MemoryRange& range : step->reads()) CHECK_FALSE(same(range, o.c));
      }
    }
  }
}

TEST_CASE("a product that takes in C == Y does so before the epilogue kernel") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.C = o.y.tensor();
  call.attrs.beta = 1.0F;
  call.attrs.act = ActKind::Tanh;
  const auto reads = [&](std::size_t step) {
    const Task task = lower(*backend, call);
    return fake_device::find(task, "lt_epilogue/0")->steps.at(step)->reads().size();
  };
  SUBCASE("without Z: the product overwrites Y") {
    CHECK(reads(0) == 3);
    CHECK(reads(1) == 1);
  }
  SUBCASE("with Z: the product leaves Y alone") {
    call.Z = o.z.tensor();
    CHECK(reads(0) == 2);
    CHECK(reads(1) == 2);
  }
}
