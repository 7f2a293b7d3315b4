#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ai/executable.hpp"
#include "ai/gemm.hpp"
#include "capture/blueprint.hpp"

namespace ai::detail {

/// What moves do to one item.
struct MovedItem {
  std::size_t index = 0;
  std::vector<void*> now = {};       ///< for each slot
  std::vector<GemmPlan> plans = {};  ///< the parts that are plans: valid over the new addresses
  bool keeps_steps = true;           ///< they serve the new addresses as well
  AddressMap addresses = {};         ///< where it keeps them
};

struct MovedOperand {
  std::size_t index = 0;
  void* to = nullptr;
};

/// What moves do to a blueprint, worked out and checked, but not done.
struct Moves {
  std::vector<MovedOperand> operands = {};  ///< in ascending order, as are the others
  std::vector<MovedItem> items = {};        ///< those with an operand that moves
  std::vector<Footprint> footprints = {};   ///< of their steps, where all items keep them
  bool in_place = true;                     ///< the same steps, waiting for each other as before
  bool keeps_runs = true;                   ///< plans that are carried out as a whole may still be
};

/// Errors: Invalid names a move that no operand follows, that two moves are for, that leads to
/// null or beyond its bytes; what validation says of an item over its new addresses. May throw
/// std::bad_alloc.
[[nodiscard]] Result<Moves> resolve(const Blueprint& blueprint, std::span<const Rebinding> moves);

/// Does what leaves the steps as they are. Precondition: moves.in_place.
void apply(Blueprint& blueprint, Moves& moves) noexcept;

/// A copy with `moves` done. Steps that cannot serve the new addresses are made anew, with the
/// candidate they had if it can be had without measuring; those of user steps also where the copy
/// is to be `independent`. It has no workspace yet. May throw what copying a user step's function
/// throws.
[[nodiscard]] Result<Blueprint> rebuilt(const Blueprint& blueprint, const Moves& moves,
                                        bool independent);

}  // namespace ai::detail
