#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/chain_shapes.hpp"
#include "kernels/chain_source.hpp"
#include "kernels/chain_tiles_layout.hpp"
#include "kernels/launch.hpp"

/// The tiles kernel, chain_tiles.cuh: for middle batches of large layers. What chain_form.hpp says
/// of every kernel's shapes. All functions may throw std::bad_alloc.
namespace ai::kernels::chain {

/// "tiles/32x32/32x2": rows and blocks of a group, terms of a chunk and chunks of inputs; then
/// "/ahead4", and "/tall" where tiles are.
[[nodiscard]] std::string name_of(const TilesShape& shape);

/// "tiles 32 32 32 2 4 0": group, members, chunk, slots, ahead, tall.
[[nodiscard]] std::string recipe_of(const TilesShape& shape);

/// The shape that recipe_of made it of; nullopt for any other text, and for a shape that the kernel
/// cannot have whatever the network.
[[nodiscard]] std::optional<TilesShape> parse_tiles_recipe(std::string_view recipe);

/// As the kernel's text has it: "{32, 32, 32, 2, 4, false}".
[[nodiscard]] std::string initializer_of(const TilesShape& shape);

/// Why a shape cannot serve a network; empty where it can, as far as can be known before it is
/// compiled.
[[nodiscard]] std::string reason_against(const Network& network, const TilesShape& shape,
                                         const Machine& machine);

/// Microseconds: for the order of shapes, not for promises.
[[nodiscard]] double estimate_us(const Network& network, const TilesShape& shape,
                                 const Machine& machine);

/// Those that look quickest, the best first. All of them can serve the network; none where it has
/// fewer rows than half a tile.
[[nodiscard]] std::vector<TilesShape> tiles_shapes(const Network& network, const Machine& machine);

[[nodiscard]] LaunchShape launch_shape(const Network& network, const TilesShape& shape);

/// Counts of launches, and what layers pass on; zeros at first.
[[nodiscard]] std::size_t state_bytes(const Network& network, const TilesShape& shape);

}  // namespace ai::kernels::chain
