#include "capture/lanes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "ai/step.hpp"

namespace ai::detail {
namespace {

/// reach[i][j]: i waits for j, directly or through others.
std::vector<std::vector<bool>> closure(const StepLists& lists) {
  std::vector<std::vector<bool>> reach(lists.size(), std::vector<bool>(lists.size()));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (const int d : lists[i]) {
      const auto earlier = static_cast<std::size_t>(d);
      reach[i][earlier] = true;
      for (std::size_t j = 0; j < earlier; ++j) {
        if (reach[earlier][j]) reach[i][j] = true;
      }
    }
  }
  return reach;
}

StepLists all_in_lanes(const StepLists& lists, int lanes) {
  return in_lanes(lists, lanes, std::vector<bool>(lists.size(), true));
}

/// As a program gives them: reduced.
StepLists random_lists(std::mt19937& random) {
  const int count = std::uniform_int_distribution<int>(1, 24)(random);
  const double share = std::uniform_real_distribution<double>(0, 0.6)(random);
  std::bernoulli_distribution waits(share);
  return ai::dependencies(static_cast<std::size_t>(count),
                          [&](std::size_t, std::size_t) { return waits(random); });
}

/// Y = relu(...) of three layers, forward and backward, then a step that takes every gradient.
struct Network {
  enum Step { F1, F2, F3, GBias3, GB3, GA3, GZ2, GBias2, GB2, GA2, GZ1, GBias1, GB1, Sgd };
  StepLists lists = {
      {},    {F1},  {F2},  {F3},  {F3},  {F3},  {GA3},
      {GZ2}, {GZ2}, {GZ2}, {GA2}, {GZ1}, {GZ1}, {GBias3, GB3, GBias2, GB2, GBias1, GB1}};
  std::vector<int> critical = {F1, F2, F3, GA3, GZ2, GA2, GZ1};
  std::vector<int> leaves = {GBias3, GB3, GBias2, GB2, GBias1, GB1};
};

TEST_CASE("lanes keep every old dependency, are chains, and leave no edge that others imply") {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const StepLists lists = random_lists(random);
    const auto old = closure(lists);
    for (const int lanes : {1, 2, 3, 4, 7}) {
      CAPTURE(round);
      CAPTURE(lanes);
      const std::vector<int> lane_of = assign_lanes(lists, lanes);
      const StepLists made = all_in_lanes(lists, lanes);
      REQUIRE(lane_of.size() == lists.size());
      REQUIRE(made.size() == lists.size());
      const auto reach = closure(made);
      for (std::size_t i = 0; i < made.size(); ++i) {
        REQUIRE(lane_of[i] >= 0);
        REQUIRE(lane_of[i] < lanes);
        REQUIRE(std::is_sorted(made[i].begin(), made[i].end()));
        for (const int d : made[i]) {
          REQUIRE(d < static_cast<int>(i));  // so there is no cycle
          for (const int other : made[i]) {
            REQUIRE(!reach[static_cast<std::size_t>(other)][static_cast<std::size_t>(d)]);
          }
        }
        for (std::size_t j = 0; j < i; ++j) {
          if (old[i][j] || lane_of[i] == lane_of[j]) REQUIRE(reach[i][j]);
        }
      }
      if (lanes == 1) CHECK(is_chain(made));
    }
  }
}

TEST_CASE("steps wait for nothing but what their data and their lane ask for") {
  std::mt19937 random(8);
  for (int round = 0; round < 500; ++round) {
    const StepLists lists = random_lists(random);
    const std::vector<int> lane_of = assign_lanes(lists, 3);
    const StepLists made = all_in_lanes(lists, 3);
    for (std::size_t i = 0; i < made.size(); ++i) {
      for (const int d : made[i]) {
        const bool asked = std::find(lists[i].begin(), lists[i].end(), d) != lists[i].end();
        CHECK((asked || lane_of[static_cast<std::size_t>(d)] == lane_of[i]));
      }
    }
  }
}

TEST_CASE("without a limit the lists stay as they are") {
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    const StepLists lists = random_lists(random);
    CHECK(all_in_lanes(lists, 0) == lists);
  }
}

TEST_CASE("as many lanes as steps change nothing, and a chain stays one with any number") {
  const Network network;
  CHECK(all_in_lanes(network.lists, 14) == network.lists);
  const StepLists chain = {{}, {0}, {1}, {2}};
  CHECK(is_chain(chain));
  for (const int lanes : {1, 2, 4}) CHECK(all_in_lanes(chain, lanes) == chain);
}

TEST_CASE("steps that are not timed wait as they did, and hand on what others wait for") {
  // 1 waits for 0 and is not timed; 2 waits for 1; 3 and 4 for nothing, and 3 is not timed.
  const StepLists lists = {{}, {0}, {1}, {}, {}};
  const std::vector<bool> timed = {true, false, true, false, true};
  CHECK(in_lanes(lists, 1, timed) == StepLists{{}, {0}, {1}, {}, {2}});
  CHECK(in_lanes(lists, 2, timed) == lists);
  CHECK(in_lanes(lists, 0, timed) == lists);
  std::mt19937 random(10);
  std::bernoulli_distribution is_timed(0.6);
  for (int round = 0; round < 300; ++round) {
    const StepLists any = random_lists(random);
    std::vector<bool> some(any.size());
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = is_timed(random);
    const auto old = closure(any);
    const StepLists made = in_lanes(any, 1, some);
    const auto reach = closure(made);
    for (std::size_t i = 0; i < any.size(); ++i) {
      if (!some[i])
        CHECK(std::includes(any[i].begin(), any[i].end(), made[i].begin(), made[i].end()));
      for (std::size_t j = 0; j < i; ++j) {
        if (old[i][j] || (some[i] && some[j])) CHECK(reach[i][j]);
      }
    }
  }
}

TEST_CASE("nothing and one step are chains; a fork is none") {
  CHECK(is_chain({}));
  CHECK(is_chain({{}}));
  CHECK(!is_chain({{}, {}}));
  CHECK(!is_chain({{}, {0}, {0}}));
  CHECK(!is_chain({{}, {0}, {0, 1}}));
  CHECK(all_in_lanes({}, 2).empty());
}

TEST_CASE("in a backward pass the data gradients keep one lane, the others go beside it") {
  const Network network;
  for (const bool updates : {true, false}) {
    StepLists lists = network.lists;
    if (!updates) lists.pop_back();
    for (const int lanes : {2, 3, 4}) {
      CAPTURE(updates);
      CAPTURE(lanes);
      const std::vector<int> lane_of = assign_lanes(lists, lanes);
      // Of the last layer's two leaves the one that comes first goes on where the way ends.
      for (const int step : network.critical) CHECK(lane_of[static_cast<std::size_t>(step)] == 0);
      for (const int leaf : {Network::GBias3, Network::GB3, Network::GBias2, Network::GB2}) {
        CHECK(lane_of[static_cast<std::size_t>(leaf)] != 0);
      }
    }
  }
}

TEST_CASE("two lanes of a backward pass, edge by edge") {
  const StepLists made = all_in_lanes(Network().lists, 2);
  using enum Network::Step;
  CHECK(made[GBias3] == std::vector<int>{F3});
  CHECK(made[GB3] == std::vector<int>{GBias3});
  CHECK(made[GA3] == std::vector<int>{F3});
  CHECK(made[GZ2] == std::vector<int>{GA3});
  CHECK(made[GBias2] == std::vector<int>{GB3, GZ2});
  CHECK(made[GB2] == std::vector<int>{GBias2});
  CHECK(made[GA2] == std::vector<int>{GZ2});
  CHECK(made[GZ1] == std::vector<int>{GA2});
  CHECK(made[GBias1] == std::vector<int>{GZ1});
  CHECK(made[GB1] == std::vector<int>{GB2, GZ1});
  CHECK(made[Sgd] == std::vector<int>{GBias1, GB1});
}

TEST_CASE("leaves are spread over the lanes that are free the earliest") {
  const StepLists leaves = {{}, {}, {}, {}, {}, {}};
  const std::vector<int> lane_of = assign_lanes(leaves, 3);
  for (int lane = 0; lane < 3; ++lane) {
    CHECK(std::count(lane_of.begin(), lane_of.end(), lane) == 2);
  }
}

TEST_CASE("chains beside each other get a lane each, as far as there are lanes") {
  // Three chains of three steps, step by step.
  const StepLists lists = {{}, {}, {}, {0}, {1}, {2}, {3}, {4}, {5}};
  CHECK(assign_lanes(lists, 3) == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(all_in_lanes(lists, 3) == lists);
}

}  // namespace
}  // namespace ai::detail
