#pragma once

#include <memory>
#include <string>

#include "ai/step.hpp"
#include "cuda/api.hpp"
#include "fused.hpp"

namespace ai::kernels {

/// One kernel. Precondition: every operand is within kMaxSpan.
[[nodiscard]] std::shared_ptr<Step> make_fused_step(const cuda::Api& api, const FusedCall& call,
                                                    const FusedShape& shape, std::string name);
/// The same for a plain product that is one of outer_launch.
[[nodiscard]] std::shared_ptr<Step> make_outer_step(const cuda::Api& api, const Product& product,
                                                    std::string name);

}  // namespace ai::kernels
