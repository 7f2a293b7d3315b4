#pragma once

#include <memory>
#include <vector>

#include "ai/gemm.hpp"
#include "ai/step.hpp"

namespace ai::host {

/// The steps that carry out a validated plan on the CPU, in order; none where nothing has to be
/// written. Scratch is symbolic. May throw std::bad_alloc.
[[nodiscard]] std::vector<std::shared_ptr<Step>> forward_steps(const GemmPlan& plan);
[[nodiscard]] std::vector<std::shared_ptr<Step>> backward_steps(const GemmPlan& plan);

}  // namespace ai::host
