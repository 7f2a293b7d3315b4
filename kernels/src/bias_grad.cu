#include "bias_grad.cuh"

namespace ai::kernels {
namespace {

constexpr int kUnroll = 8;  // loads in flight

__global__ __launch_bounds__(kBiasGradThreads) void bias_grad(const BiasGradArgs args) {
  __shared__ double parts[kBiasGradThreads];
  const int lanes = 1 << args.lanes_log2;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const int group = static_cast<int>(threadIdx.x) >> args.lanes_log2;
  const int groups = kBiasGradThreads >> args.lanes_log2;
  const std::int64_t count = args.target.bias.count;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * lanes;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * lanes; first < count;
       first += stride) {
    const std::int64_t column = first + lane;
    double sum = 0.0;
    if (column < count) {
      const std::int64_t step = groups * count;
      const double* partial = args.partial + group * count + column;
      for (std::int64_t part = group; part < args.parts; part += kUnroll * groups) {
        double values[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          values[u] = part + u * groups < args.parts ? partial[u * step] : 0.0;
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) sum += values[u];
        partial += kUnroll * step;
      }
    }
    parts[threadIdx.x] = sum;
    sum_rows<kBiasGradThreads>(parts, kBiasGradThreads, lanes);
    if (group == 0 && column < count) store_bias(args.target, column, parts[lane]);
    __syncthreads();
  }
}

}  // namespace

BiasGradKernel bias_grad_kernel() noexcept {
  return bias_grad;
}

int bias_grad_lanes_log2(std::int64_t count) noexcept {
  int lanes_log2 = 0;
  while (lanes_log2 < 5 && (std::int64_t{1} << lanes_log2) < count) ++lanes_log2;
  return lanes_log2;
}

}  // namespace ai::kernels
