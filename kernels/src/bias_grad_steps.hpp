#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ai/backend.hpp"
#include "bias_grad.hpp"

namespace ai::kernels {

/// Sums the columns of `partial` ([parts, target.bias.count] f64) into gBias. `partial` may be
/// symbolic. Without parts gBias becomes zero.
[[nodiscard]] std::shared_ptr<Step> bias_grad_step(const cuda::Api& api, const double* partial,
                                                   std::int64_t parts, const BiasTarget& target);

/// Of cub_candidate.
[[nodiscard]] const char* cub_name(BiasKind kind) noexcept;

/// Why CUB cannot take gY as it is; empty where it can. `rows_are_split`: the rows are too few to
/// give each one block.
[[nodiscard]] std::string cub_reason(BiasKind kind, const MatrixView& gy, bool rows_are_split);

/// CUB straight over gY, for a gBias that needs neither gZ nor gC: one segmented reduction for
/// PerM, one reduction for Scalar. Asks CUB for its scratch on the current device.
/// What CUB cannot take, and what it cannot plan, gives the reason.
[[nodiscard]] Candidate cub_candidate(const cuda::Api& api, BiasKind kind, const MatrixView& gy,
                                      const BiasTarget& target, bool rows_are_split);

}  // namespace ai::kernels
