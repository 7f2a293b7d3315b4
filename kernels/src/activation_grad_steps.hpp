#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "activation_grad.hpp"
#include "ai/backend.hpp"
#include "cuda/api.hpp"

namespace ai::kernels {

/// Bytes of the partial sums that args.grid gives.
[[nodiscard]] std::size_t partial_bytes(const GradientArgs& args) noexcept;

/// What one launch over `args` reads and writes.
[[nodiscard]] std::vector<MemoryRange> reads_of(const GradientArgs& args);
[[nodiscard]] std::vector<MemoryRange> writes_of(const GradientArgs& args);

/// One launch of gradient_kernel over args.grid.
[[nodiscard]] std::shared_ptr<Step> gradient_step(const cuda::Api& api, ActKind act,
                                                  const GradientArgs& args);

inline constexpr const char* kRowsForm = "activation_grad/rows";
inline constexpr const char* kTilesForm = "activation_grad/tiles";

/// One launch with the least code, for few rows: a thread for each column, or, with one row or no
/// sums, for each element. For what it cannot do, or is no good for, the reason.
[[nodiscard]] Candidate rows_candidate(const cuda::Api& api, ActKind act, const GradientArgs& args,
                                       int sm_count);
/// The same for sums of more rows: a block for eight columns, whose threads share the rows.
[[nodiscard]] Candidate tiles_candidate(const cuda::Api& api, ActKind act, const GradientArgs& args,
                                        int sm_count);

}  // namespace ai::kernels
