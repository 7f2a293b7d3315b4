#include "capture/trial.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fake_program.hpp"

namespace ai::test {
namespace {

using detail::difference;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool same(std::array<float, 3> expected, std::array<float, 3> got) {
  return difference(expected, got).empty();
}

TEST_CASE("results differ where one is further away than a ten-thousandth") {
  CHECK(same({1, 2, 4}, {1, 2, 4}));
  CHECK(same({1, 2, 4}, {1.0004F, 2, 4}));
  CHECK_FALSE(same({1, 2, 4}, {1.0006F, 2, 4}));
  CHECK_FALSE(same({0, 0, 0}, {0, 1e-30F, 0}));
}

TEST_CASE("NaN and the infinities must match in kind") {
  CHECK(same({kNaN, kInf, -kInf}, {kNaN, kInf, -kInf}));
  CHECK_FALSE(same({kNaN, 1, 1}, {0, 1, 1}));
  CHECK_FALSE(same({1, 1, 1}, {kNaN, 1, 1}));
  CHECK_FALSE(same({kInf, 1, 1}, {-kInf, 1, 1}));
  CHECK_FALSE(same({kInf, 1, 1}, {3e38F, 1, 1}));
  CHECK_FALSE(same({1, 1, 1}, {kInf, 1, 1}));
  CHECK_FALSE(same({kNaN, 1, 1}, {kInf, 1, 1}));
}

std::shared_ptr<TestStep> step(std::vector<MemoryRange> reads, std::vector<MemoryRange> writes) {
  return std::make_shared<TestStep>("s", std::move(reads), std::move(writes),
                                    [](const AddressMap&, Stream) { return Status(); });
}

TEST_CASE("scratch keeps the alignment of every address, and what lies together") {
  alignas(256) static float memory[4096];
  const MemoryRange odd = range_of(&memory[1], 40);
  const MemoryRange left{reinterpret_cast<std::uintptr_t>(&memory[67]), 8, 16, 64};
  const MemoryRange right{reinterpret_cast<std::uintptr_t>(&memory[71]), 8, 16, 64};
  const MemoryRange temporary = range_of(symbolic::allocate(100), 100);
  const Task task{"t",
                  {candidate("a", step({odd, left}, {right})),
                   candidate("b", step({odd}, {temporary, right}))}};
  const detail::ScratchLayout layout(task);
  alignas(256) static std::byte scratch[8192];
  REQUIRE(layout.bytes() <= sizeof scratch);
  const AddressMap map = layout.over(scratch);
  const auto moved = [&](const MemoryRange& range) {
    return reinterpret_cast<std::uintptr_t>(map(reinterpret_cast<const void*>(range.begin)));
  };
  const auto base = reinterpret_cast<std::uintptr_t>(scratch);
  for (const MemoryRange& range : {odd, left, right, temporary}) {
    CHECK(moved(range) % 256 == range.begin % 256);
    CHECK(moved(range) >= base);
    CHECK(moved(range) + (range.end() - range.begin) <= base + layout.bytes());
  }
  CHECK(moved(right) - moved(left) == right.begin - left.begin);
}

TEST_CASE(
    "operands of a trial: inputs are read first, scratch is none, fresh is what may be poisoned") {
  static float memory[64];
  const MemoryRange a = range_of(&memory[0], 16);
  const MemoryRange y = range_of(&memory[16], 16);
  const MemoryRange sum = range_of(&memory[32], 16);
  const MemoryRange scratch = range_of(symbolic::allocate(64), 64);
  const MemoryRange temporary = range_of(symbolic::allocate(64), 64);
  Candidate fallback = candidate("f", step({a, sum}, {scratch, y, sum}));
  fallback.steps.push_back(step({y, scratch}, {temporary}));
  const std::vector<MemoryRange> temporaries{temporary};
  const detail::TrialOperands operands = detail::trial_operands(fallback, temporaries);
  const auto begins = [](const std::vector<MemoryRange>& ranges) {
    std::vector<std::uintptr_t> all;
    for (const MemoryRange& range : ranges) all.push_back(range.begin);
    return all;
  };
  CHECK(begins(operands.inputs) == std::vector{a.begin, sum.begin});
  CHECK(begins(operands.outputs) == std::vector{y.begin, sum.begin, temporary.begin});
  CHECK(begins(operands.fresh) == std::vector{y.begin, temporary.begin});
}

TEST_CASE("storage between tasks is the symbolic storage that more than one of them uses") {
  static float memory[64];
  const MemoryRange user = range_of(&memory[0], 64);
  const MemoryRange handed = range_of(symbolic::allocate(256), 256);
  const MemoryRange left{handed.begin, 4, 16, 64};
  const MemoryRange right{handed.begin + 128, 2, 16, 64};
  const MemoryRange own = range_of(symbolic::allocate(64), 64);
  const std::vector<detail::LoweredTask> tasks{
      {{"a", {candidate("a1", step({user}, {own, left})), candidate("a2", step({own}, {left}))}},
       "a"},
      {{"b", {candidate("b", step({user}, {range_of(symbolic::allocate(64), 64)}))}}, "b"},
      {{"c", {candidate("c", step({right}, {user}))}}, "c"}};
  const std::vector<MemoryRange> between = detail::storage_between(tasks);
  REQUIRE(between.size() == 1);
  CHECK(between[0].begin == handed.begin);
  CHECK(between[0].end() >= right.end());
  CHECK(between[0].end() <= handed.end());
  CHECK(detail::storage_between(std::span(tasks).first(2)).empty());
}

enum class Sum { Ascending, Descending, Tree };
using Rounding = float (*)(float);

float keep(float value) {
  return value;
}
float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0xFFFU + ((bits >> 13) & 1U)) & ~0x1FFFU);
}
float cut_to_tf32(float value) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~0x1FFFU);
}

float sum_of(std::span<const float> terms, Sum order) {
  if (order == Sum::Tree && terms.size() > 1) {
    const std::size_t half = terms.size() / 2;
    return sum_of(terms.first(half), order) + sum_of(terms.subspan(half), order);
  }
  float sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    sum += order == Sum::Descending ? terms[terms.size() - 1 - i] : terms[i];
  }
  return sum;
}

/// Y = A B with f32 sums in a given order, of operands rounded first.
Candidate product(FakeCuda& fake, const GemmForward& call, Sum order, Rounding rounded) {
  const auto body = [&fake, call, order, rounded](const AddressMap& addresses, Stream stream) {
    const auto* const a = static_cast<const float*>(addresses(call.A).data);
    const auto* const b = static_cast<const float*>(addresses(call.B).data);
    auto* const y = static_cast<float*>(addresses(call.Y).data);
    const auto extent = [](const Tensor& tensor, int axis) {
      return static_cast<std::size_t>(tensor.desc.shape[axis]);
    };
    const auto kernel = [=, m = extent(call.Y, 0), n = extent(call.Y, 1), k = extent(call.A, 1)] {
      std::vector<float> terms(k);
      for (std::size_t i = 0; i < m * n; ++i) {
        for (std::size_t l = 0; l < k; ++l) {
          terms[l] = rounded(a[i / n * k + l]) * rounded(b[l * n + i % n]);
        }
        y[i] = sum_of(terms, order);
      }
    };
    return fake.work(stream, cudaGraphNodeTypeKernel, 1, kernel) == cudaSuccess
               ? Status()
               : Status(StatusCode::CudaError, "the product could not be launched");
  };
  auto made = std::make_shared<TestStep>("product", std::vector{range_of(call.A), range_of(call.B)},
                                         std::vector{range_of(call.Y)}, body);
  REQUIRE(made->prepare().ok());
  return candidate("product", std::move(made));
}

/// A call over one block, A before B before Y: scratch is laid out by address, so operands of their
/// own would get other values of the trial's pattern in each run.
GemmForward call_over_one_block(FakeCuda& fake, std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kFloats = 64;  // that stand between two 256-byte aligned addresses
  const auto room = [](std::int64_t count) { return (count + kFloats) / kFloats * kFloats; };
  const std::int64_t b = room(m * k);
  const std::int64_t y = b + room(k * n);
  const auto bytes = static_cast<std::size_t>(y + room(m * n)) * sizeof(float);
  auto* const block = static_cast<float*>(fake.operand(bytes));
  const Result<GemmPlan> plan = plan_forward({.A = make_tensor_2d(block, {m, k}),
                                              .B = make_tensor_2d(block + b, {k, n}),
                                              .Y = make_tensor_2d(block + y, {m, n})});
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return plan->forward();
}

TEST_CASE("operands rounded to TF32 are told from f32 sums in another order") {
  for (const std::int64_t k : {64, 256, 1024}) {
    for (const auto& size : {std::array{1, 8}, {3, 5}, {16, 64}}) {
      CAPTURE(k);
      CAPTURE(size[0]);
      CAPTURE(size[1]);
      FakeCuda fake;
      const GemmForward call = call_over_one_block(fake, size[0], size[1], k);
      const Candidate fallback = product(fake, call, Sum::Ascending, keep);
      const detail::ScratchLayout layout(Task{"t", {fallback}});
      detail::Trial trial(FakeCuda::api(), fake.make_stream(), layout,
                          detail::trial_operands(fallback, {}), fake.operand(layout.bytes()));
      const auto difference_of = [&](Sum order, Rounding rounded) {
        const auto expected = trial.run(fallback, detail::TrialData::Plain);
        const auto got = trial.run(product(fake, call, order, rounded), detail::TrialData::Plain);
        REQUIRE(expected.ok());
        REQUIRE(got.ok());
        return trial.difference(*expected, *got);
      };
      CHECK(difference_of(Sum::Ascending, keep) == "");
      CHECK(difference_of(Sum::Descending, keep) == "");
      CHECK(difference_of(Sum::Tree, keep) == "");
      CHECK(difference_of(Sum::Ascending, to_tf32) != "");
      CHECK(difference_of(Sum::Tree, to_tf32) != "");
      CHECK(difference_of(Sum::Tree, cut_to_tf32) != "");
    }
  }
}

}  // namespace
}  // namespace ai::test
