#include "capture/trial.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>

#include "fake_program.hpp"

namespace ai::test {
namespace {

using detail::difference;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool same(std::array<float, 3> expected, std::array<float, 3> got) {
  return difference(expected, got).empty();
}

TEST_CASE("results differ where one is further away than a thousandth") {
  CHECK(same({1, 2, 4}, {1, 2, 4}));
  CHECK(same({1, 2, 4}, {1.004F, 2, 4}));
  CHECK_FALSE(same({1, 2, 4}, {1.006F, 2, 4}));
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

}  // namespace
}  // namespace ai::test
