#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/cases.hpp"
#include "support/compare.hpp"
#include "support/run_host.hpp"

namespace {

using ai::ActKind;
using ai::BiasKind;
using support::Buffer;
using support::Case;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool all_equal(const Buffer& buffer, float value) {
  bool equal = true;
  Buffer copy = buffer;
  copy.for_each([&](const float& element) { equal = equal && element == value; });
  return equal && buffer.canaries_are_intact();
}

template <typename Data>
void run(const Data& data) {
  const ai::Status status = support::run_on_host(data.call());
  REQUIRE_MESSAGE(status.ok(), status.to_string());
}

TEST_CASE("C1 K = 0 writes act(beta C + bias)") {
  Case c{16, 16, 0, BiasKind::PerN, ActKind::ReLU};
  for (const bool with_c : {false, true}) {
    c.with_c = with_c;
    support::ForwardData data(c);
    for (std::int64_t n = 0; n < 16; ++n) data.bias->at(0, n) = static_cast<float>(n - 8);
    if (with_c) data.c->fill(1.0F);
    ai::GemmForward call = data.call();
    call.A.data = call.B.data = nullptr;  // no element, no memory
    REQUIRE(support::run_on_host(call).ok());
    for (std::int64_t m = 0; m < 16; ++m) {
      for (std::int64_t n = 0; n < 16; ++n) {
        const auto wanted = static_cast<float>(std::max<std::int64_t>(n - (with_c ? 7 : 8), 0));
        CHECK(data.y.at(m, n) == wanted);
      }
    }
  }
}

TEST_CASE("C1 K = 0 has empty gA and gB and the usual gBias") {
  Case c{3, 2, 0, BiasKind::PerN};
  support::BackwardData data(c);
  data.gy.fill(2.0F);
  run(data);
  CHECK(all_equal(*data.gbias, 6.0F));
  CHECK(data.ga->canaries_are_intact());
  CHECK(data.gb->canaries_are_intact());
}

TEST_CASE("C2 M = 0 writes gB and gBias as zeros, or leaves them where they accumulate") {
  Case c{0, 210, 100, BiasKind::PerN, ActKind::GELU};
  c.with_z = true;
  support::BackwardData data(c);
  run(data);
  CHECK(all_equal(*data.gb, 0.0F));
  CHECK(all_equal(*data.gbias, 0.0F));
  c.gb = c.gbias = support::Wanted::Accumulate;
  support::BackwardData added(c);
  const support::BackwardData before = added;
  run(added);
  CHECK(added.gb->has_same_bits(*before.gb));
  CHECK(added.gbias->has_same_bits(*before.gbias));
}

TEST_CASE("C2 N = 0 writes gA as zeros; gBias of any kind that sums nothing is zero") {
  for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerM}) {
    Case c{31, 0, 20, kind};
    support::BackwardData data(c);
    run(data);
    CHECK(all_equal(*data.ga, 0.0F));
    CHECK(all_equal(*data.gbias, 0.0F));
  }
}

TEST_CASE("C2 an empty forward is a valid step-less plan") {
  for (const auto& [m, n] : {std::pair<int, int>{0, 5}, {5, 0}, {0, 0}}) {
    Case c{m, n, 4, BiasKind::Scalar};
    support::ForwardData data(c);
    run(data);
    CHECK(data.y.canaries_are_intact());
    CHECK(ai::make_host_backend()->lower({&*ai::plan_forward(data.call()), 1})->empty());
  }
}

TEST_CASE("C3 old outputs and, with beta = 0, C never leak into results") {
  const support::Shape shapes[] = {{1, 1, 1}, {3, 5, 7}, {127, 129, 33}, {128, 128, 64}};
  for (const support::Shape& shape : shapes) {
    Case c{shape.m, shape.n, shape.k, BiasKind::PerN, ActKind::SiLU, false, true, true, true};
    c.beta = 0.0F;
    const auto outputs = [&](float fill) {
      support::ForwardData forward(c);
      support::BackwardData backward(c);
      forward.c->fill(kNaN);
      forward.y.fill(fill);
      forward.z->fill(fill);
      for (auto* gradient : {&backward.ga, &backward.gb, &backward.gc, &backward.gbias}) {
        (*gradient)->fill(fill);
      }
      run(forward);
      run(backward);
      return std::vector<Buffer>{forward.y,    *forward.z,   *backward.ga,
                                 *backward.gb, *backward.gc, *backward.gbias};
    };
    const std::vector<Buffer> zero = outputs(0.0F);
    const std::vector<Buffer> nan = outputs(kNaN);
    const std::vector<Buffer> inf = outputs(kInf);
    for (std::size_t i = 0; i < zero.size(); ++i) {
      CHECK(zero[i].has_same_bits(nan[i]));
      CHECK(zero[i].has_same_bits(inf[i]));
      Buffer copy = zero[i];
      copy.for_each([](const float& element) { CHECK(std::isfinite(element)); });
    }
  }
}

TEST_CASE("alpha = 0 reads neither A nor B, in both directions") {
  Case c{4, 6, 5, BiasKind::PerM, ActKind::None, false, false, true, true};
  c.alpha = 0.0F;
  support::ForwardData forward(c);
  forward.a.fill(kNaN);
  forward.b.fill(kInf);
  const oracle::Forward expected = oracle::forward(forward.call());
  run(forward);
  CHECK(support::exact_difference("Y", expected.y, forward.y) == "");
  support::BackwardData backward(c);
  backward.a.fill(kNaN);
  backward.b.fill(kInf);
  run(backward);
  CHECK(all_equal(*backward.ga, 0.0F));
  CHECK(all_equal(*backward.gb, 0.0F));
}

TEST_CASE("C4 a NaN or Inf in A spreads through its row and every activation, and no further") {
  for (const std::int64_t size : {4, 64}) {
    for (const ActKind act : support::kActs) {
      for (const float bad : {kNaN, kInf}) {
        CAPTURE(ai::to_string(act));
        CAPTURE(bad);
        Case c{size, size, size, BiasKind::None, act};
        support::ForwardData data(c);
        data.a.fill(1.0F);
        data.b.fill(1.0F);
        data.a.at(0, 0) = bad;
        for (std::int64_t n = 0; n < size; ++n) {
          if (std::isinf(bad)) data.b.at(0, n) = 0.0F;  // Inf * 0 = NaN
        }
        run(data);
        for (std::int64_t n = 0; n < size; ++n) {
          CHECK(std::isnan(data.y.at(0, n)));
          CHECK(std::isfinite(data.y.at(1, n)));
        }
      }
    }
  }
}

TEST_CASE("C4 a NaN in Z or gY spreads to the gradients that sum it") {
  for (const ActKind act : support::kActs) {
    if (act == ActKind::None) continue;
    CAPTURE(ai::to_string(act));
    Case c{4, 5, 3, BiasKind::PerN, act, false, false, true};
    for (const bool in_z : {true, false}) {
      support::BackwardData data(c);
      (in_z ? *data.z : data.gy).at(1, 2) = kNaN;
      const oracle::Backward expected = oracle::backward(data.call());
      run(data);
      CHECK(support::difference("gA", expected.ga, *data.ga) == "");
      CHECK(support::difference("gB", expected.gb, *data.gb) == "");
      CHECK(support::difference("gBias", expected.gbias, *data.gbias) == "");
      CHECK(std::isnan(data.ga->at(1, 0)));
      CHECK(std::isfinite(data.ga->at(0, 0)));
      CHECK(std::isnan(data.gbias->at(0, 2)));
      CHECK(std::isfinite(data.gbias->at(0, 1)));
    }
  }
}

TEST_CASE("C11 the bias runs along its own axis even where M = N, and alpha does not scale it") {
  for (const std::int64_t n : {8, 4}) {
    for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM}) {
      Case c{8, n, 3, kind};
      support::ForwardData data(c);
      data.a.fill(0.0F);
      const bool per_n = kind == BiasKind::PerN;
      float next = 1.0F;
      data.bias->for_each([&](float& element) { element = next++; });
      run(data);
      for (std::int64_t row = 0; row < 8; ++row) {
        for (std::int64_t col = 0; col < n; ++col) {
          CHECK(data.y.at(row, col) == static_cast<float>(1 + (per_n ? col : row)));
        }
      }
    }
  }
  Case c{8, 8, 8, BiasKind::Scalar};
  c.alpha = 0.5F;
  support::ForwardData data(c);
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 8; ++j) data.a.at(i, j) = data.b.at(i, j) = i == j ? 1.0F : 0.0F;
  }
  data.bias->fill(2.0F);
  run(data);
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 8; ++j) CHECK(data.y.at(i, j) == (i == j ? 2.5F : 2.0F));
  }
}

TEST_CASE("C20 forward and backward with slopes of 0 and below go by the saved Z") {
  Case c{1, 2, 1, BiasKind::None, ActKind::LeakyReLU, false, false, true};
  c.slope = -2.0F;
  support::ForwardData forward(c);
  forward.a.fill(1.0F);
  forward.b.at(0, 0) = -1.0F;
  forward.b.at(0, 1) = 1.0F;
  run(forward);
  CHECK(forward.y.at(0, 0) == 2.0F);
  CHECK(forward.y.at(0, 1) == 1.0F);
  Case identity{1, 10, 10, BiasKind::None, ActKind::LeakyReLU, false, false, true};
  for (const float slope : {-2.0F, 0.0F}) {
    identity.slope = slope;
    support::BackwardData backward(identity);
    backward.gy.fill(1.0F);
    backward.b.fill(0.0F);
    for (std::int64_t i = 0; i < 10; ++i) {
      backward.b.at(i, i) = 1.0F;
      backward.z->at(0, i) = static_cast<float>(i - 5);
    }
    run(backward);
    for (std::int64_t i = 0; i < 10; ++i) CHECK(backward.ga->at(0, i) == (i > 5 ? 1.0F : slope));
  }
}

TEST_CASE("C22 subnormal biases keep their bits, and -0 stays a zero") {
  for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
    Case c{2, 3, 0, BiasKind::PerN, act};
    support::ForwardData data(c);
    data.bias->fill(5.8774718e-39F);
    run(data);
    CHECK(all_equal(data.y, 5.8774718e-39F));
    data.bias->fill(-0.0F);
    run(data);
    CHECK(all_equal(data.y, 0.0F));
  }
}

/// gBias of a filled gY [m,n].
template <typename Element>
float gbias_of(std::int64_t m, std::int64_t n, BiasKind kind, Element&& element) {
  Case c{m, n, 0, kind};
  c.ga = c.gb = support::Wanted::No;
  support::BackwardData data(c);
  std::int64_t i = 0;
  data.gy.for_each([&](float& value) { value = element(i++); });
  run(data);
  return data.gbias->at(0, 0);
}

TEST_CASE("D7 long sums keep their precision") {
  const auto constant = [](float value) { return [value](std::int64_t) { return value; }; };
  CHECK(std::abs(gbias_of(250, 250, BiasKind::Scalar, constant(1.23456F)) - 77160.0F) <= 0.02F);
  CHECK(gbias_of(1000000, 1, BiasKind::Scalar, constant(100.0F)) == 1e8F);
  CHECK(gbias_of(1, 1000000, BiasKind::PerM, constant(100.0F)) == 1e8F);
  const auto mixed = [](std::int64_t i) { return i < 262144 ? 1.0F : 0.1F; };
  CHECK(std::abs(gbias_of(524288, 1, BiasKind::Scalar, mixed) - 288358.40F) <= 0.1F);
  CHECK(std::abs(gbias_of(1000000, 1, BiasKind::Scalar, constant(0.1F)) - 100000.0F) <= 0.05F);
  for (const auto& [m, n, kind] :
       {std::tuple{1000000, 2, BiasKind::PerN}, std::tuple{2, 1000000, BiasKind::PerM}}) {
    CHECK(std::abs(gbias_of(m, n, kind, constant(0.1F)) - 100000.0F) <= 0.05F);
  }
  // 2^25 ones: one running f32 sum would stick at 16777216.
  CHECK(gbias_of(std::int64_t{1} << 24, 2, BiasKind::Scalar, constant(1.0F)) == 33554432.0F);
}

TEST_CASE("the host backend refuses operands of a GPU and says which") {
  Case c{2, 2, 2};
  support::ForwardData data(c);
  support::Place gpu;
  gpu.device = ai::Device::CUDA;
  gpu.device_index = 3;
  const ai::Status status = support::run_on_host(data.call(gpu));
  CHECK(status.code() == ai::StatusCode::DeviceMismatch);
  CHECK(status.message() == "A is on CUDA:3, expected CPU because the target is the host");
}

TEST_CASE("backward's gradients wait for gZ alone and for none of each other") {
  Case c{4, 5, 3, BiasKind::PerN, ActKind::ReLU, false, false, true, true};
  support::BackwardData data(c);
  ai::Program program;
  REQUIRE(program.add(*ai::plan_backward(data.call())).ok());
  const auto steps = support::host_steps(program);
  REQUIRE(steps.ok());
  std::vector<const ai::Step*> plain;
  for (const auto& step : *steps) plain.push_back(step.get());
  CHECK(ai::dependencies(plain) == std::vector<std::vector<int>>{{}, {0}, {0}, {0}, {0}});
  CHECK(plain[0]->name() == "host_gZ");
}

TEST_CASE("one step serves several address maps") {
  Case c{3, 4, 5, BiasKind::PerN, ActKind::Tanh};
  support::ForwardData planned(c);
  c.seed = 99;
  support::ForwardData other(c);
  const oracle::Forward expected = oracle::forward(other.call());
  const auto plan = ai::plan_forward(planned.call());
  const auto tasks = ai::make_host_backend()->lower({&*plan, 1});
  REQUIRE(tasks.ok());
  ai::AddressMap elsewhere;
  std::vector<Buffer*> from;
  planned.for_each([&](const char*, Buffer& buffer, bool) { from.push_back(&buffer); });
  std::size_t i = 0;
  other.for_each([&](const char*, Buffer& buffer, bool) {
    elsewhere.add(reinterpret_cast<std::uintptr_t>(from[i]->raw().data()), from[i]->raw_bytes(),
                  buffer.raw().data());
    ++i;
  });
  const Buffer untouched = planned.y;
  REQUIRE(tasks->front().candidates.front().steps.front()->enqueue(elsewhere, nullptr).ok());
  CHECK(support::difference("Y", expected.y, other.y) == "");
  CHECK(planned.y.has_same_bits(untouched));
}

}  // namespace
