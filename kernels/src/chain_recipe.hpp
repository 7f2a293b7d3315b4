#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/chain_layout.hpp"

namespace ai::kernels::chain {

/// "chain/2x8x256x1": slab, cluster, threads and columns; "/staged" follows where it is, and the
/// window, "/ahead40", where there is one. May throw std::bad_alloc, as may all below.
[[nodiscard]] std::string name_of(const Shape& shape);

/// "chain 2 8 256 1 0 0": slab, cluster, threads, columns, staged, window.
[[nodiscard]] std::string recipe_of(const Shape& shape);

/// The shape that recipe_of made it of; nullopt for any other text, and for a shape that the kernel
/// cannot have whatever the network.
[[nodiscard]] std::optional<Shape> parse_recipe(std::string_view recipe);

/// Takes a space and a number off the front of `text`; false, and nothing is taken, where there is
/// none.
[[nodiscard]] bool take_number(std::string_view& text, int& number) noexcept;

}  // namespace ai::kernels::chain
