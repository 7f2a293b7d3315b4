#pragma once

#include <cstddef>
#include <vector>

#include "kernels/chain_form.hpp"

namespace ai::kernels::chain {

/// Microseconds that a step for each layer takes in all, by a crude estimate: a node's least, or
/// what its bytes or its arithmetic take; of a layer alone two steps.
[[nodiscard]] double plan_by_plan_us(const Network& network, const Machine& machine);

/// Those of `forms` that may be worth their measuring: not estimated far above plan_by_plan_us().
/// Where nothing is going to be measured, only those below. May throw std::bad_alloc.
[[nodiscard]] std::vector<Form> worthwhile(const Network& network, std::vector<Form> forms,
                                           const Machine& machine, bool measured);

}  // namespace ai::kernels::chain
