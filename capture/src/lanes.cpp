#include "capture/lanes.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "ai/step.hpp"

namespace ai::detail {
namespace {

constexpr int kNone = -1;

/// How many steps the longest way from each one to an end of the program has.
std::vector<int> heights(const StepLists& dependencies) {
  std::vector<int> height(dependencies.size(), 1);
  for (std::size_t i = dependencies.size(); i-- > 0;) {
    for (const int d : dependencies[i]) {
      int& mine = height[static_cast<std::size_t>(d)];
      mine = std::max(mine, height[i] + 1);
    }
  }
  return height;
}

/// For each step the one that is to follow it in its lane: of those that wait for it the highest.
std::vector<int> heirs(const StepLists& dependencies, const std::vector<int>& height) {
  std::vector<int> heir(dependencies.size(), kNone);
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    for (const int d : dependencies[i]) {
      int& mine = heir[static_cast<std::size_t>(d)];
      if (mine == kNone || height[i] > height[static_cast<std::size_t>(mine)]) {
        mine = static_cast<int>(i);
      }
    }
  }
  return heir;
}

/// What the timed steps wait for among themselves, be it by way of others, counted without those.
StepLists among_timed(const StepLists& dependencies, const std::vector<bool>& timed) {
  StepLists near(dependencies.size());  // the timed ones that each step waits for
  std::vector<int> number(dependencies.size());
  std::vector<std::size_t> picked;
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    for (const int d : dependencies[i]) {
      const auto earlier = static_cast<std::size_t>(d);
      if (timed[earlier]) {
        near[i].push_back(number[earlier]);
      } else {
        near[i].insert(near[i].end(), near[earlier].begin(), near[earlier].end());
      }
    }
    std::sort(near[i].begin(), near[i].end());
    near[i].erase(std::unique(near[i].begin(), near[i].end()), near[i].end());
    number[i] = static_cast<int>(picked.size());
    if (timed[i]) picked.push_back(i);
  }
  return ai::dependencies(picked.size(), [&](std::size_t later, std::size_t earlier) {
    const std::vector<int>& mine = near[picked[later]];
    return std::binary_search(mine.begin(), mine.end(), static_cast<int>(earlier));
  });
}

struct Lane {
  int last = kNone;
  int end = 0;  ///< when its last step is over, if each takes 1
};

class Scheduler {
 public:
  Scheduler(const StepLists& dependencies, int lanes)
      : dependencies_(dependencies),
        height_(heights(dependencies)),
        heir_(heirs(dependencies, height_)),
        end_(dependencies.size()),
        lanes_(static_cast<std::size_t>(lanes)) {}

  std::vector<int> run() {
    std::vector<int> lane_of;
    for (std::size_t i = 0; i < dependencies_.size(); ++i) {
      int begin = 0;
      for (const int d : dependencies_[i])
        begin = std::max(begin, end_[static_cast<std::size_t>(d)]);
      const auto best = std::min_element(
          lanes_.begin(), lanes_.end(),
          [&](const Lane& a, const Lane& b) { return rank(a, i, begin) < rank(b, i, begin); });
      best->last = static_cast<int>(i);
      best->end = end_[i] = std::max(best->end, begin) + 1;
      lane_of.push_back(static_cast<int>(best - lanes_.begin()));
    }
    return lane_of;
  }

 private:
  /// The least is the lane to take for `step`, which could begin at `begin`.
  [[nodiscard]] std::array<int, 4> rank(const Lane& lane, std::size_t step, int begin) const {
    const auto me = static_cast<int>(step);
    const int heir = lane.last == kNone ? kNone : heir_[static_cast<std::size_t>(lane.last)];
    if (heir == me) return {0, -lane.end, 0, 0};  // of several, what is over last
    // A lane that is kept for a step to come is taken only where all are, the one least waited for.
    const int kept_for = heir > me ? height_[static_cast<std::size_t>(heir)] : 0;
    const std::vector<int>& before = dependencies_[step];
    const bool follows = std::find(before.begin(), before.end(), lane.last) != before.end();
    return {1, kept_for, std::max(lane.end - begin, 0), follows ? -1 : lane.end};
  }

  const StepLists& dependencies_;
  const std::vector<int> height_;
  const std::vector<int> heir_;
  std::vector<int> end_;
  std::vector<Lane> lanes_;
};

}  // namespace

std::vector<int> assign_lanes(const StepLists& dependencies, int lanes) {
  return Scheduler(dependencies, lanes).run();
}

StepLists in_lanes(StepLists dependencies, int lanes, const std::vector<bool>& timed) {
  if (lanes == 0) return dependencies;
  const std::vector<int> lane_of = assign_lanes(among_timed(dependencies, timed), lanes);
  std::vector<int> last(static_cast<std::size_t>(lanes), kNone);
  std::vector<int> before;  // in its lane, for each step
  std::size_t next = 0;
  for (const bool is_timed : timed) {
    const int me = static_cast<int>(before.size());
    before.push_back(kNone);
    if (!is_timed) continue;
    before.back() = std::exchange(last[static_cast<std::size_t>(lane_of[next++])], me);
  }
  return ai::dependencies(dependencies.size(), [&](std::size_t later, std::size_t earlier) {
    const auto step = static_cast<int>(earlier);
    const std::vector<int>& mine = dependencies[later];
    return before[later] == step || std::find(mine.begin(), mine.end(), step) != mine.end();
  });
}

bool is_chain(const StepLists& dependencies) noexcept {
  for (std::size_t i = 1; i < dependencies.size(); ++i) {
    if (dependencies[i].size() != 1 || dependencies[i][0] + 1 != static_cast<int>(i)) return false;
  }
  return true;
}

}  // namespace ai::detail
