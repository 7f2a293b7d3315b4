#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace gpu {

/// Adds to `*found` (device memory) how many of `now` differ from `expected`, and then sets each to
/// `before`: the next launch starts from there.
cudaError_t enqueue_compare_and_reset(unsigned* now, const unsigned* expected,
                                      const unsigned* before, std::size_t count,
                                      unsigned long long* found, cudaStream_t stream);

/// `waves` times as many blocks as the GPU holds at once, each of about `nanoseconds`: blocks are
/// waiting for every multiprocessor until the last wave.
cudaError_t enqueue_waves(int waves, long long nanoseconds, cudaStream_t stream);

/// Blocks that each take a whole multiprocessor, until `*flag` is not 0 or `limit_nanoseconds` are
/// over. Multiprocessors that lie together are left free: as many as a cluster of 16 blocks needs,
/// or 16 where there are no clusters. Each block adds 1 to `*started` as it begins. Both are mapped
/// host memory.
struct Occupation {
  int blocks = 0;
  int multiprocessors = 0;
};
cudaError_t enqueue_occupation(const int* flag, int* started, long long limit_nanoseconds,
                               cudaStream_t stream, Occupation& made);

}  // namespace gpu
