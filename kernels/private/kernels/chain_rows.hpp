#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/chain_rows_layout.hpp"
#include "kernels/chain_shapes.hpp"
#include "kernels/launch.hpp"

/// The kernel for many rows, chain_rows.cuh: what chain_form.hpp says of every kernel's shapes. All
/// may throw std::bad_alloc.
namespace ai::kernels::chain {

/// "rows/32x4": rows of a warp and warps of a block; "/streamed" follows where weights are.
[[nodiscard]] std::string name_of(const RowsShape& shape);

/// "rows 32 4 0": rows, warps, streamed.
[[nodiscard]] std::string recipe_of(const RowsShape& shape);
[[nodiscard]] std::optional<RowsShape> parse_rows_recipe(std::string_view recipe);

[[nodiscard]] std::string initializer_of(const RowsShape& shape);

[[nodiscard]] std::string reason_against(const Network& network, const RowsShape& shape,
                                         const Machine& machine);
[[nodiscard]] double estimate_us(const Network& network, const RowsShape& shape,
                                 const Machine& machine);

/// Those that fit, the ones that look quickest; none for networks with few rows, whose sums of a
/// layer other kernels share out over several blocks.
[[nodiscard]] std::vector<RowsShape> rows_shapes(const Network& network, const Machine& machine);

[[nodiscard]] LaunchShape launch_shape(const Network& network, const RowsShape& shape);

}  // namespace ai::kernels::chain
