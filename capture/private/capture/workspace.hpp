#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ai/memory.hpp"
#include "ai/step.hpp"

namespace ai::detail {

/// Where one symbolic buffer lies in the workspace.
struct Placement {
  std::uintptr_t address = 0;  ///< symbolic
  std::size_t bytes = 0;
  std::size_t offset = 0;  ///< 256-byte aligned
};

/// One block of memory that serves every symbolic buffer of a list of steps.
struct WorkspacePlan {
  std::size_t bytes = 0;
  std::vector<Placement> placements;  ///< by ascending address
  std::vector<Placement> state;       ///< those of them that must be zero at first

  /// The symbolic buffers over a block of at least `bytes` at `base`.
  [[nodiscard]] AddressMap over(void* base) const;
};

/// Plans the workspace of `steps`. `dependencies` is theirs, as ai::dependencies gives it. A buffer
/// is a temporary of `temporaries`, or what overlapping symbolic ranges of the steps add up to. Two
/// buffers share bytes only where each user of one is ordered before each user of the other by the
/// dependencies alone, so sharing asks for no further order. One with Step::state() in it shares
/// none. Buffers without a user get no place.
[[nodiscard]] WorkspacePlan plan_workspace(std::span<const Step* const> steps,
                                           const std::vector<std::vector<int>>& dependencies,
                                           std::span<const MemoryRange> temporaries);

/// A run of bytes [begin, end).
struct Interval {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Sorts `intervals`, drops the empty ones and joins those that share a byte.
void merge(std::vector<Interval>& intervals);

/// The element of merged `intervals` that holds `address`, or -1.
[[nodiscard]] int find(std::span<const Interval> intervals, std::uintptr_t address) noexcept;

}  // namespace ai::detail
