#pragma once

#include "bias_grad.hpp"

namespace ai::kernels {

/// Adds a finished sum to its element, rounding to f32 once.
__host__ __device__ inline void store_bias(const BiasTarget& target, std::int64_t index,
                                           double sum) {
  float* const element = target.bias.data + index * target.bias.stride;
  *element = static_cast<float>(target.accumulate ? static_cast<double>(*element) + sum : sum);
}

/// Sums the rows of parts[size / columns][columns] into its first row, in an order that only the
/// two sizes fix. Both are powers of two. All threads of the block take part; parts must have been
/// written by then, and may be read and written again after the next barrier.
template <int kThreads>
__device__ inline void sum_rows(double* parts, int size, int columns) {
  __syncthreads();
  while (size > columns) {
    const bool by_four = size >= 4 * columns;
    const int part = by_four ? size / 4 : size / 2;
    for (int i = static_cast<int>(threadIdx.x); i < part; i += kThreads) {
      double sum = parts[i] + parts[i + part];
      if (by_four) sum += parts[i + 2 * part] + parts[i + 3 * part];
      parts[i] = sum;
    }
    __syncthreads();
    size = part;
  }
}

}  // namespace ai::kernels
