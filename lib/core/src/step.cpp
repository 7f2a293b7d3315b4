#include "ai/step.hpp"

#include <algorithm>
#include <cstddef>

namespace ai {
namespace {

bool any_overlap(std::span<const MemoryRange> some, std::span<const MemoryRange> others) noexcept {
  for (const MemoryRange& one : some) {
    for (const MemoryRange& other : others) {
      if (overlaps(one, other)) return true;
    }
  }
  return false;
}

}  // namespace

bool in_conflict(const Accesses& a, const Accesses& b) noexcept {
  return any_overlap(a.reads, b.writes) || any_overlap(a.writes, b.reads) ||
         any_overlap(a.writes, b.writes);
}

bool depends_on(const Step& later, const Step& earlier) noexcept {
  return in_conflict({later.reads(), later.writes()}, {earlier.reads(), earlier.writes()});
}

std::vector<std::vector<int>> dependencies(const std::vector<const Step*>& steps) {
  return dependencies(steps.size(), [&](std::size_t later, std::size_t earlier) {
    return depends_on(*steps[later], *steps[earlier]);
  });
}

std::vector<std::vector<int>> dependencies(
    std::size_t count, const std::function<bool(std::size_t, std::size_t)>& waits) {
  std::vector<std::vector<int>> result(count);
  std::vector<std::vector<bool>> waits_for(count);  // directly or through others
  for (std::size_t later = 0; later < count; ++later) {
    std::vector<bool>& implied = waits_for[later];
    implied.assign(later, false);
    // From the latest to the earliest: a step that another edge implies comes after that edge.
    for (std::size_t earlier = later; earlier-- > 0;) {
      if (implied[earlier] || !waits(later, earlier)) continue;
      result[later].push_back(static_cast<int>(earlier));
      implied[earlier] = true;
      for (std::size_t i = 0; i < earlier; ++i) {
        if (waits_for[earlier][i]) implied[i] = true;
      }
    }
    std::reverse(result[later].begin(), result[later].end());
  }
  return result;
}

}  // namespace ai
