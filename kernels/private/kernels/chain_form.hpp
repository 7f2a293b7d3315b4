#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/chain_grid.hpp"
#include "kernels/chain_rows.hpp"
#include "kernels/chain_shapes.hpp"
#include "kernels/chain_source.hpp"
#include "kernels/chain_tiles.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels::chain {

/// A shape of one of the kernels that carry out a network as a whole, each with a text of its own:
/// - Shape, of chain_slab.cuh: a block or a cluster takes a few rows through all layers;
/// - RowsShape, of chain_rows.cuh and chain_lines.cuh: a warp does, for very many rows;
/// - GridShape, of chain_grid.cuh: all blocks work on the same few rows;
/// - TilesShape, of chain_tiles.cuh: groups of blocks work on some rows each, for middle batches.
/// The blocks of the last two wait for one another: they are launched cooperatively.
using Form = std::variant<Shape, RowsShape, GridShape, TilesShape>;

/// What is unique to a form in words, and what parse_form takes back. May throw std::bad_alloc, as
/// may all below.
[[nodiscard]] std::string name_of(const Form& form);
[[nodiscard]] std::string recipe_of(const Form& form);
/// The form that recipe_of made it of; nullopt for any other text, and for what the kernel cannot
/// have whatever the network.
[[nodiscard]] std::optional<Form> parse_form(std::string_view recipe);

/// Why a form cannot serve a network; empty where it can, as far as can be known before it is
/// compiled.
[[nodiscard]] std::string reason_against(const Network& network, const Form& form,
                                         const Machine& machine);

/// Microseconds that an estimate gives: for the order of forms, not for promises.
[[nodiscard]] double estimate_us(const Network& network, const Form& form, const Machine& machine);

/// The forms that look quickest, at most `count`, the best first; among them, where `count` allows,
/// the best one of each kernel that can serve the network: estimates of different kernels do not
/// compare well. Empty where none can serve it. `cooperative`: FuseOptions::cooperative.
[[nodiscard]] std::vector<Form> forms_for(const Network& network, const Machine& machine,
                                          std::size_t count, bool cooperative = true);

/// The text of the kernel. Precondition: reason_against() is empty.
[[nodiscard]] std::string source_of(const Network& network, const Form& form);

[[nodiscard]] LaunchShape launch_shape(const Network& network, const Form& form);
/// Of memory beside the operands that is zero at first and nobody else's (Step::state); often 0.
[[nodiscard]] std::size_t state_bytes(const Network& network, const Form& form);

}  // namespace ai::kernels::chain
