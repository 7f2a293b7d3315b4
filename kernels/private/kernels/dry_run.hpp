#pragma once

#include "ai/step.hpp"
#include "cuda/api.hpp"

namespace ai::kernels {

/// Loads what a library launches in `step` and offers no other way to load: the step is recorded
/// over the addresses that `addresses` gives, into a graph that never runs, in the capture mode
/// that allows loading. No operand is touched. A call that its library refuses shows here as well.
[[nodiscard]] Status dry_run(const cuda::Api& api, Step& step, const AddressMap& addresses);

}  // namespace ai::kernels
