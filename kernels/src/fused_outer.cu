#include <cuda_runtime_api.h>

#include "fused.hpp"

namespace ai::kernels {
namespace {

template <int kWidth>
__device__ void load(const float* at, float (&values)[kWidth]) {
  if constexpr (kWidth == 4) {
    const float4 v = *reinterpret_cast<const float4*>(at);
    values[0] = v.x;
    values[1] = v.y;
    values[2] = v.z;
    values[3] = v.w;
  } else {
    values[0] = *at;
  }
}

template <int kWidth>
__device__ void store(float* at, const float (&values)[kWidth]) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(at) = make_float4(values[0], values[1], values[2], values[3]);
  } else {
    *at = values[0];
  }
}

/// A thread keeps its columns of R's few rows and walks down the rows of Y.
template <int kTerms, int kWidth>
__global__ void __launch_bounds__(256) outer(const __grid_constant__ FusedArguments args) {
  const unsigned lanes = 1U << args.lanes_log2;
  const unsigned part = blockIdx.x & ((1U << args.parts_log2) - 1);
  const unsigned groups = blockDim.x >> args.lanes_log2;
  const unsigned first_row =
      (blockIdx.x >> args.parts_log2) * groups + (threadIdx.x >> args.lanes_log2);
  const unsigned row_step = (gridDim.x >> args.parts_log2) * groups;
  const unsigned units = args.n / kWidth;

  for (unsigned unit = (part << args.lanes_log2) + (threadIdx.x & (lanes - 1)); unit < units;
       unit += lanes << args.parts_log2) {
    const unsigned column = unit * kWidth;
    float r[kTerms][kWidth] = {};
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      if (t < args.k) load(args.r + (t * args.r_k + column * args.r_n), r[t]);
    }
#pragma unroll 1  // as a rule there is one
    for (unsigned row = first_row; row < args.m; row += row_step) {
      float l[kTerms];
#pragma unroll
      for (int t = 0; t < kTerms; ++t) {
        l[t] = t < args.k ? args.l[row * args.l_m + t * args.l_k] : 0.0F;
      }
      float c[kWidth] = {};
      if (args.c.data != nullptr) {
        load(args.c.data + (row * args.c.row_step + column * args.c.column_step), c);
      }
      float y[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        float sum = 0.0F;
#pragma unroll
        for (int t = 0; t < kTerms; ++t) sum = fmaf(l[t], r[t][j], sum);
        y[j] = args.alpha * sum;
        if (args.c.data != nullptr) y[j] = fmaf(args.beta, c[j], y[j]);
      }
      store(args.y.data + (row * args.y.row_step + column * args.y.column_step), y);
    }
  }
}

template <int kTerms>
FusedKernel outer_of(FusedLoads loads) noexcept {
  return loads == FusedLoads::AlongN ? &outer<kTerms, 4> : &outer<kTerms, 1>;
}

}  // namespace

FusedKernel outer_kernel(const FusedForm& form) noexcept {
  switch (form.rows) {
    case 1: return outer_of<1>(form.loads);
    case 2: return outer_of<2>(form.loads);
    case 4: return outer_of<4>(form.loads);
    default: return outer_of<8>(form.loads);
  }
}

}  // namespace ai::kernels
