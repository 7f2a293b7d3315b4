#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ai/step.hpp"

namespace {

using ai::MemoryRange;
using Edges = std::vector<std::vector<int>>;

class Work final : public ai::Step {
 public:
  Work(std::vector<MemoryRange> reads, std::vector<MemoryRange> writes)
      : Step("work", std::move(reads), std::move(writes)) {}
  ai::Status enqueue(const ai::AddressMap&, ai::Stream) override { return {}; }
};

MemoryRange bytes(std::uintptr_t begin, std::int64_t width) {
  return {begin, 1, width, width};
}

Edges dependencies_of(const std::vector<std::unique_ptr<Work>>& steps) {
  std::vector<const ai::Step*> plain;
  for (const auto& step : steps) plain.push_back(step.get());
  return ai::dependencies(plain);
}

const MemoryRange kX = bytes(1000, 100);
const MemoryRange kV = bytes(2000, 100);
const MemoryRange kW = bytes(3000, 100);

TEST_CASE(
    "a step waits for writers of what it reads, and for readers and writers of what it writes") {
  const Work reads_x({kX}, {kV});
  const Work writes_x({kW}, {kX});
  const Work also_writes_x({}, {bytes(1099, 1)});
  const Work also_reads_x({kX}, {kW});
  CHECK(ai::depends_on(reads_x, writes_x));                            // read after write
  CHECK(ai::depends_on(writes_x, reads_x));                            // write after read
  CHECK(ai::depends_on(writes_x, also_writes_x));                      // write after write
  CHECK_FALSE(ai::depends_on(reads_x, Work({kX}, {bytes(5000, 1)})));  // two readers
  CHECK_FALSE(ai::depends_on(reads_x, Work({}, {bytes(1100, 50)})));   // the byte behind X
  CHECK(ai::depends_on(also_reads_x, writes_x));
}

TEST_CASE("column halves of one buffer are independent, its rows are not split by a column") {
  const MemoryRange left{4096, 8, 16, 32};
  const MemoryRange right{4096 + 16, 8, 16, 32};
  const MemoryRange row{4096, 1, 32, 32};
  CHECK_FALSE(ai::depends_on(Work({}, {right}), Work({}, {left})));
  CHECK(ai::depends_on(Work({row}, {}), Work({}, {left})));
  CHECK(ai::depends_on(Work({row}, {}), Work({}, {right})));
}

TEST_CASE("edges that others imply are left out") {
  std::vector<std::unique_ptr<Work>> steps;
  steps.push_back(std::make_unique<Work>(std::vector<MemoryRange>{}, std::vector{kX}));
  steps.push_back(std::make_unique<Work>(std::vector{kX}, std::vector{kV}));
  steps.push_back(std::make_unique<Work>(std::vector{kX}, std::vector{kW}));
  // Reads all three: X's writer is implied by both branches.
  steps.push_back(std::make_unique<Work>(std::vector{kX, kV, kW}, std::vector{bytes(9000, 1)}));
  // Rewrites X: waits for the join alone, since its readers are all before that.
  steps.push_back(std::make_unique<Work>(std::vector<MemoryRange>{}, std::vector{kX}));
  steps.push_back(std::make_unique<Work>(std::vector{bytes(7000, 1)}, std::vector{bytes(8000, 1)}));
  CHECK(dependencies_of(steps) == Edges{{}, {0}, {0}, {1, 2}, {3}, {}});
  CHECK(ai::dependencies({}).empty());
}

/// All pairs (later, earlier) that the edges order, directly or not.
std::vector<std::vector<bool>> closure(const Edges& edges) {
  std::vector<std::vector<bool>> reach(edges.size(), std::vector<bool>(edges.size(), false));
  for (std::size_t later = 0; later < edges.size(); ++later) {
    for (const int edge : edges[later]) {
      const auto earlier = static_cast<std::size_t>(edge);
      reach[later][earlier] = true;
      for (std::size_t i = 0; i < earlier; ++i) {
        if (reach[earlier][i]) reach[later][i] = true;
      }
    }
  }
  return reach;
}

TEST_CASE("on random programs the edges order exactly what the hazards order, with none to spare") {
  std::mt19937 engine(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::unique_ptr<Work>> steps;
    for (int i = 0; i < 12; ++i) {
      const auto pick = [&] { return bytes(1000 + 10 * (engine() % 14), 1 + engine() % 15); };
      steps.push_back(std::make_unique<Work>(std::vector{pick(), pick()}, std::vector{pick()}));
    }
    Edges all(steps.size());
    for (std::size_t later = 0; later < steps.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (ai::depends_on(*steps[later], *steps[earlier])) {
          all[later].push_back(static_cast<int>(earlier));
        }
      }
    }
    const Edges reduced = dependencies_of(steps);
    REQUIRE(closure(reduced) == closure(all));
    for (std::size_t later = 0; later < reduced.size(); ++later) {
      for (std::size_t i = 0; i < reduced[later].size(); ++i) {
        Edges fewer = reduced;
        fewer[later].erase(fewer[later].begin() + static_cast<std::ptrdiff_t>(i));
        REQUIRE(closure(fewer) != closure(all));
        if (i > 0) REQUIRE(reduced[later][i - 1] < reduced[later][i]);
      }
    }
  }
}

}  // namespace
