#pragma once

#include <cuda_runtime_api.h>

namespace gpu {

/// Keeps one thread of the GPU busy for about `nanoseconds`.
cudaError_t enqueue_spin(long long nanoseconds, cudaStream_t stream);
/// data[i] *= factor.
cudaError_t enqueue_scale(float* data, int count, float factor, cudaStream_t stream);

}  // namespace gpu
