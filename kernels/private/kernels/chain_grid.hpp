#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/chain_grid_layout.hpp"
#include "kernels/chain_shapes.hpp"
#include "kernels/chain_source.hpp"
#include "kernels/launch.hpp"

/// The grid kernel: for few rows and large layers, whose weights no block or cluster fetches
/// quickly enough. All functions may throw std::bad_alloc.
namespace ai::kernels::chain {

/// "grid/128x512x4": blocks, threads, copies; "/ahead2" follows where that is limited, "/pause900"
/// where there is one.
[[nodiscard]] std::string name_of(const GridShape& shape);

/// "grid 128 512 4 0 900": blocks, threads, copies, ahead, pause.
[[nodiscard]] std::string recipe_of(const GridShape& shape);

/// The shape that recipe_of made it of; nullopt for any other text, and for a shape that the kernel
/// cannot have whatever the network.
[[nodiscard]] std::optional<GridShape> parse_grid_recipe(std::string_view recipe);

/// As the kernel's text has it: "{128, 512, 4, 0, 900}".
[[nodiscard]] std::string initializer_of(const GridShape& shape);

/// Why a shape cannot serve a network; empty where it can, as far as can be known before it is
/// compiled.
[[nodiscard]] std::string reason_against(const Network& network, const GridShape& shape,
                                         const Machine& machine);

/// Microseconds: for the order of shapes, not for promises.
[[nodiscard]] double estimate_us(const Network& network, const GridShape& shape,
                                 const Machine& machine);

/// Shapes worth considering, in no order. All of them can serve the network.
[[nodiscard]] std::vector<GridShape> grid_shapes(const Network& network, const Machine& machine);

[[nodiscard]] LaunchShape launch_shape(const Network& network, const GridShape& shape);

/// What a launch needs beside its operands: counts of launches, and the words that blocks send each
/// other. They begin as zeros and belong to one step.
[[nodiscard]] std::size_t state_bytes(const Network& network, const GridShape& shape);

}  // namespace ai::kernels::chain
