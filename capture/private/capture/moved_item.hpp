#pragma once

#include <cstddef>
#include <span>

#include "capture/blueprint.hpp"
#include "capture/rebinding.hpp"

namespace ai::detail {

/// The `index`-th item with `operands` of it moved: checked by the item's own rules, and its steps
/// held against the new addresses. May throw std::bad_alloc.
[[nodiscard]] Result<MovedItem> move_item(const Blueprint& blueprint, std::size_t index,
                                          std::span<const MovedOperand> operands);

/// Puts the new addresses into the item's own description. Its steps and maps stay as they are.
void place(BoundItem& item, const MovedItem& moved) noexcept;

/// Lowers an item over the addresses it has now and chooses again, without measuring.
[[nodiscard]] Status make_steps_anew(Blueprint& blueprint, std::size_t index, Backend& backend);

}  // namespace ai::detail
