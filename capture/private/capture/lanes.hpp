#pragma once

#include <string>
#include <vector>

namespace ai::detail {

/// For each step, in order, the indices of the earlier steps that it must wait for, without those
/// that are implied; as ai::dependencies gives it.
using StepLists = std::vector<std::vector<int>>;

/// How many timed steps of a program may be under way at once.
struct StepOrder {
  int lanes = 0;          ///< 0: as many as the data flow allows
  std::string note = {};  ///< for Executable::explain(); empty where there was nothing to choose
};

/// For each step one of `lanes` >= 1 lanes. Steps of one lane run one after the other, in their
/// order in the list. A step follows the one that it waits for, where it is the one of its
/// successors that most is waiting for; another one goes where it waits for the least. May throw
/// std::bad_alloc, as may the others.
[[nodiscard]] std::vector<int> assign_lanes(const StepLists& dependencies, int lanes);

/// `dependencies`, and that each timed step waits for the one before it in its lane, without what
/// is implied. Steps that are not timed (the caller's, copies) have no lane: how long they take is
/// not known. With 0 lanes: as they are.
[[nodiscard]] StepLists in_lanes(StepLists dependencies, int lanes, const std::vector<bool>& timed);

/// Whether each step waits for the one before it.
[[nodiscard]] bool is_chain(const StepLists& dependencies) noexcept;

}  // namespace ai::detail
