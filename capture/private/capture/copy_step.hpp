#pragma once

#include <memory>

#include "ai/program.hpp"
#include "ai/step.hpp"

namespace ai::cuda {
struct Api;
}

namespace ai::detail {

/// `copy`, both sides of which the CPU can reach, done at each enqueue. An empty one does nothing.
/// May throw std::bad_alloc, as may the other.
[[nodiscard]] Result<std::shared_ptr<Step>> make_host_copy(const CopyStep& copy);

/// `copy` as one asynchronous copy between pinned host memory and the device: one node of a graph,
/// or none where it is empty. Unsupported names a side whose rows are too far apart for CUDA.
[[nodiscard]] Result<std::shared_ptr<Step>> make_cuda_copy(const cuda::Api& api,
                                                           const CopyStep& copy);

}  // namespace ai::detail
