#pragma once

#include <cstddef>
#include <cstdint>

#include "ai/step.hpp"
#include "cuda/api.hpp"
#include "kernels/views.hpp"

namespace ai::kernels {

/// Where sums go. `accumulate` adds to what is there; otherwise old contents are not read.
struct BiasTarget {
  VectorView bias;
  bool accumulate = false;
};

/// `partial` is [parts, bias.count] f64; its columns are summed. No parts: sums of nothing.
struct BiasGradArgs {
  const double* partial = nullptr;
  std::int64_t parts = 0;
  BiasTarget target;
  int lanes_log2 = 0;  ///< columns of a block: 2^lanes_log2 <= 32
};

using BiasGradKernel = void (*)(BiasGradArgs);
[[nodiscard]] BiasGradKernel bias_grad_kernel() noexcept;
[[nodiscard]] int bias_grad_lanes_log2(std::int64_t count) noexcept;
inline constexpr int kBiasGradThreads = 256;

/// Sums `count` elements of gY, `stride` apart, into a bias of one element (cub::DeviceReduce).
/// Null `temporary`: only sets `bytes`. Preconditions: count > 0; no CUDA error is pending.
[[nodiscard]] cudaError_t cub_reduce(void* temporary, std::size_t& bytes, const float* gy,
                                     std::int64_t count, std::int64_t stride,
                                     const BiasTarget& target, Stream stream) noexcept;

/// Sums each row of gY into its element of a PerM bias (cub::DeviceSegmentedReduce). As above.
[[nodiscard]] cudaError_t cub_segmented_reduce(void* temporary, std::size_t& bytes,
                                               const MatrixView& gy, const BiasTarget& target,
                                               Stream stream) noexcept;

}  // namespace ai::kernels
