#include "activation_grad_small.hpp"

namespace ai::kernels {
namespace {

constexpr int kWarp = 32;

template <ActKind kAct>
__global__ __launch_bounds__(256) void small_gradient_elements(
    const __grid_constant__ SmallGradient call) {
  const std::uint32_t col = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col < call.cols && row < call.rows) small_gradient_element<kAct>(call, row, col);
}

template <ActKind kAct>
__global__ __launch_bounds__(256) void small_gradient_columns(
    const __grid_constant__ SmallGradient call) {
  const std::uint32_t col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= call.cols) return;
  const double sum = small_gradient_column<kAct>(call, col, 0, 1);
  if (call.bias != nullptr) store_small_bias(call, col, sum);
}

/// Sums over the lanes of a warp that hold one column of a tile.
__device__ inline double sum_of_column(double sum) {
  for (int offset = kTileColumns; offset < kWarp; offset *= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, offset);
  }
  return sum;
}

/// The block is of whole warps.
template <ActKind kAct>
__global__ __launch_bounds__(kMostTileThreads) void small_gradient_tiles(
    const __grid_constant__ SmallGradient call) {
  __shared__ double sums[kMostTileThreads / kWarp][kTileColumns];
  const std::uint32_t thread = threadIdx.x;
  const std::uint32_t lane = thread % kWarp;
  const std::uint32_t group = thread / kTileColumns;
  const std::uint32_t col = blockIdx.x * kTileColumns + thread % kTileColumns;
  double sum = 0.0;
  if (col < call.cols && group < call.rows) {
    sum = small_gradient_column<kAct>(call, col, group, blockDim.x / kTileColumns);
  }
  if (call.bias == nullptr) return;
  sum = sum_of_column(sum);
  if (lane < kTileColumns) sums[thread / kWarp][lane] = sum;
  __syncthreads();
  if (thread >= kWarp) return;
  sum = 0.0;
#pragma unroll 1  // seldom more than one turn, and code takes time to fetch
  for (std::uint32_t warp = group; warp < blockDim.x / kWarp; warp += kWarp / kTileColumns) {
    sum += sums[warp][thread % kTileColumns];
  }
  sum = sum_of_column(sum);
  if (group == 0 && col < call.cols) store_small_bias(call, col, sum);
}

}  // namespace

SmallGradientKernel small_gradient_kernel(ActKind act, SmallGradientForm form) noexcept {
  return activation::dispatch(act, [form]<ActKind kAct>() -> SmallGradientKernel {
    switch (form) {
      case SmallGradientForm::Elements: return small_gradient_elements<kAct>;
      case SmallGradientForm::Columns: return small_gradient_columns<kAct>;
      case SmallGradientForm::Tiles: break;
    }
    return small_gradient_tiles<kAct>;
  });
}

}  // namespace ai::kernels
