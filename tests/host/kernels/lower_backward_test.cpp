#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backward_support.hpp"
#include "fake_device.hpp"
#include "matrix.hpp"
#include "support/oracle.hpp"

using ai::ActKind;
using ai::GemmBackward;
using ai::GradMode;
using ai::Task;
using Names = std::vector<std::string>;

namespace {

std::vector<Task> lower(ai::Backend& backend, const GemmBackward& call) {
  std::vector<Task> tasks = backward_test::lower(backend, call);
  for (const Task& task : tasks) {
    CHECK(task.candidates.back().applicable());
    CHECK(task.candidates.back().trusted);
  }
  return tasks;
}

Names names(const std::vector<Task>& tasks) {
  Names result;
  for (const Task& task : tasks) result.push_back(task.name);
  return result;
}

struct Operands {
  Operands(std::int64_t m, std::int64_t n, std::int64_t k, bool trans_a = false,
           bool trans_b = false)
      : a(trans_a ? Matrix(k, m, 1) : Matrix(m, k, 2)),
        b(trans_b ? Matrix(n, k, 3, 0, 2) : Matrix(k, n, 1, 0, 2)),
        gy(m, n, 2, 0, 3),
        z(m, n, 1, 0, 4),
        ga(trans_a ? Matrix(k, m, 2, 0, 5) : Matrix(m, k, 5, 0, 5)),
        gb(trans_b ? Matrix(n, k, 1, 0, 6) : Matrix(k, n, 3, 0, 6)) {
    attrs.trans_a = trans_a;
    attrs.trans_b = trans_b;
  }
  [[nodiscard]] GemmBackward call(GradMode mode = GradMode::Overwrite) const {
    return {.A = a.tensor(),
            .B = b.tensor(),
            .gY = gy.tensor(),
            .gA = ai::Gradient(ga.tensor(), mode),
            .gB = ai::Gradient(gb.tensor(), mode),
            .attrs = attrs};
  }
  Matrix a, b, gy, z, ga, gb;
  ai::GemmAttrs attrs = {};
};

void check_equal(const oracle::Table& expected, Matrix& got, const ai::Tensor& tensor) {
  bool right = got.padding_is_untouched();
  const std::int64_t cols = tensor.desc.shape[1];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    right = right && got.at(at / cols, at % cols) == static_cast<float>(expected[i].value);
  }
  CHECK(right);
}

}  // namespace

TEST_CASE("without an activation gA and gB read gY itself, and no task comes before them") {
  const auto backend = fake_device::fresh_backend();
  const Operands o(5, 12, 6);
  const std::vector<Task> tasks = lower(*backend, o.call());
  CHECK(names(tasks) == Names{"backward gA[5,6]", "backward gB[6,12]"});
  CHECK(fake_device::names(tasks[0]) ==
        Names{"fused/0", "lt_gemm/0", "lt_gemm/1", "lt_gemm/2", "lt_gemm/fallback"});
  CHECK_FALSE(ai::depends_on(*tasks[1].candidates[0].steps[0], *tasks[0].candidates[0].steps[0]));
}

TEST_CASE("every candidate of gA and gB is exact for all transposes, modes and alphas") {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const GradMode mode : {GradMode::Overwrite, GradMode::Accumulate}) {
        for (const float alpha : {1.0F, -2.0F}) {
          CAPTURE(trans_a);
          CAPTURE(trans_b);
          CAPTURE(static_cast<int>(mode));
          CAPTURE(alpha);
          const auto backend = fake_device::fresh_backend();
          Operands o(5, 12, 6, trans_a, trans_b);
          o.attrs.alpha = alpha;
          const GemmBackward call = o.call(mode);
          const std::vector<Task> tasks = lower(*backend, call);
          REQUIRE(tasks.size() == 2);
          for (const ai::Candidate& candidate : tasks[0].candidates) {
            if (mode == GradMode::Overwrite) o.ga.fill(std::nanf(""));
            const oracle::Table expected = oracle::backward(call).ga;
            fake_device::Runner runner;
            REQUIRE(runner.run(candidate).ok());
            check_equal(expected, o.ga, call.gA->tensor);
          }
          for (const ai::Candidate& candidate : tasks[1].candidates) {
            if (mode == GradMode::Overwrite) o.gb.fill(std::nanf(""));
            const oracle::Table expected = oracle::backward(call).gb;
            fake_device::Runner runner;
            REQUIRE(runner.run(candidate).ok());
            check_equal(expected, o.gb, call.gB->tensor);
          }
        }
      }
    }
  }
}

TEST_CASE("with an activation gZ goes through scratch that gA and gB wait for") {
  const auto backend = fake_device::fresh_backend();
  Operands o(5, 12, 6);
  o.attrs.act = ActKind::ReLU;
  GemmBackward call = o.call();
  call.Z = o.z.tensor();
  const std::vector<Task> tasks = lower(*backend, call);
  REQUIRE(names(tasks) == Names{"backward gZ[5,12]", "backward gA[5,6]", "backward gB[6,12]"});
  const ai::Step& gz = *tasks[0].candidates.back().steps.back();
  for (const std::size_t i : {1, 2}) {
    const ai::Step& product = *tasks[i].candidates[0].steps[0];
    CHECK(ai::depends_on(product, gz));
    for (const ai::MemoryRange& range : product.reads()) {
      CHECK_FALSE(ai::overlaps(range, ai::range_of(o.gy.tensor())));
    }
  }
}

TEST_CASE("gZ is stored only where a product reads it") {
  const auto backend = fake_device::fresh_backend();
  Operands o(5, 12, 6);
  o.attrs.act = ActKind::ReLU;
  const Matrix c(5, 12);
  const Matrix gc(5, 12);
  GemmBackward call = o.call();
  call.Z = o.z.tensor();
  call.C = c.tensor();
  SUBCASE("gC alone") {
    call.gA.reset();
    call.gB.reset();
    call.gC = ai::Gradient(gc.tensor());
    const std::vector<Task> tasks = lower(*backend, call);
    CHECK(names(tasks) == Names{"backward gC[5,12]"});
    for (const auto& step : tasks[0].candidates.back().steps) {
      for (const ai::MemoryRange& range : step->writes()) {
        CHECK_FALSE(ai::symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin)));
      }
    }
  }
  SUBCASE("alpha = 0") {
    call.attrs.alpha = 0.0F;
    CHECK(names(lower(*backend, call)) == Names{"backward gA[5,6]", "backward gB[6,12]"});
  }
  CHECK(fake_lt::state().loads == 0);
}

TEST_CASE(
    "sums over nothing are zeros in Overwrite and nothing in Accumulate, without cuBLASLt [C2]") {
  const auto run = [](std::int64_t m, std::int64_t n, std::int64_t k, float alpha, GradMode mode,
                      ActKind act) {
    const auto backend = fake_device::fresh_backend();
    Operands o(m, n, k);
    o.attrs.alpha = alpha;
    o.attrs.act = act;
    GemmBackward call = o.call(mode);
    call.Z = o.z.tensor();
    o.ga.fill(7.0F);
    o.gb.fill(7.0F);
    Names families;
    for (const Task& task : lower(*backend, call)) {
      CHECK(task.candidates.size() == 1);
      families.push_back(task.candidates[0].name);
      REQUIRE(fake_device::Runner().run(task.candidates[0]).ok());
    }
    CHECK(fake_lt::state().loads == 0);
    const float wanted = mode == GradMode::Overwrite ? 0.0F : 7.0F;
    if (m > 0 && k > 0) CHECK(o.ga.at(m - 1, k - 1) == wanted);
    if (k > 0 && n > 0) CHECK(o.gb.at(k - 1, n - 1) == wanted);
    CHECK(o.ga.padding_is_untouched());
    CHECK(o.gb.padding_is_untouched());
    return families;
  };
  for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
    CHECK(run(0, 12, 6, 1.0F, GradMode::Overwrite, act) == Names{"nothing", "zero_fill"});
    CHECK(run(5, 0, 6, 1.0F, GradMode::Overwrite, act) == Names{"zero_fill", "nothing"});
    CHECK(run(5, 12, 0, 1.0F, GradMode::Overwrite, act) == Names{"nothing", "nothing"});
    CHECK(run(5, 12, 6, 0.0F, GradMode::Overwrite, act) == Names{"zero_fill", "zero_fill"});
    CHECK(run(0, 12, 6, 1.0F, GradMode::Accumulate, act) == Names{"nothing", "nothing"});
    CHECK(run(5, 12, 6, 0.0F, GradMode::Accumulate, act) == Names{"nothing", "nothing"});
  }
}
