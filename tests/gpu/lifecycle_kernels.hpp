#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace gpu {

/// Keeps one thread of the GPU busy for about `nanoseconds`.
cudaError_t enqueue_spin(long long nanoseconds, cudaStream_t stream);
/// Keeps one thread of the GPU busy until `*flag` (mapped host memory) is not 0, but no longer than
/// `limit_nanoseconds`, so that a test that fails ends all the same.
cudaError_t enqueue_wait_for(const int* flag, long long limit_nanoseconds, cudaStream_t stream);
/// data[i] *= factor.
cudaError_t enqueue_scale(float* data, int count, float factor, cudaStream_t stream);
/// Adds to `*found` how many of the words are not `value`.
cudaError_t enqueue_count_other(const unsigned* words, std::size_t count, unsigned value,
                                unsigned long long* found, cudaStream_t stream);

}  // namespace gpu
