#pragma once

#include <cuda_runtime_api.h>

namespace ai::test {

/// `count` kernels of one thread in a chain; each adds 1 to *counter.
cudaError_t enqueue_increments(float* counter, int count, cudaStream_t stream) noexcept;

}  // namespace ai::test
