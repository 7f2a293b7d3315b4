#pragma once

#include <cuda_runtime_api.h>

#include "fused.hpp"

namespace ai::kernels {

static_assert(__cplusplus >= 202002L, "device code needs C++20");

using FusedPatch = float[kFusedPatch][kFusedPatch];

__device__ inline float4 load_four(const float* at, bool valid) {
  return valid ? *reinterpret_cast<const float4*>(at) : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
}

/// A patch of R: 4 terms (k + i) of 4 columns (column + j). Terms past the end are 0; columns past
/// the end repeat earlier ones, and nobody stores what comes of them.
template <FusedLoads kLoads>
__device__ inline void load_patch(const FusedArguments& args, unsigned k, unsigned column,
                                  FusedPatch& patch) {
  if constexpr (kLoads == FusedLoads::AlongN) {
    unsigned at = k * args.r_k + min(column, args.n - kFusedPatch);
#pragma unroll
    for (int i = 0; i < kFusedPatch; ++i, at += args.r_k) {
      const float4 v = load_four(args.r + at, k + i < args.k);
      patch[i][0] = v.x;
      patch[i][1] = v.y;
      patch[i][2] = v.z;
      patch[i][3] = v.w;
    }
  } else if constexpr (kLoads == FusedLoads::AlongK) {
#pragma unroll
    for (int j = 0; j < kFusedPatch; ++j) {
      const unsigned at = k + min(column + j, args.n - 1) * args.r_n;
      const float4 v = load_four(args.r + at, k < args.k);
      patch[0][j] = v.x;
      patch[1][j] = v.y;
      patch[2][j] = v.z;
      patch[3][j] = v.w;
    }
  } else {
#pragma unroll
    for (int j = 0; j < kFusedPatch; ++j) {
      unsigned at = k * args.r_k + min(column + j, args.n - 1) * args.r_n;
#pragma unroll
      for (int i = 0; i < kFusedPatch; ++i, at += args.r_k) {
        patch[i][j] = k + i < args.k ? args.r[at] : 0.0F;
      }
    }
  }
}

/// The same 4 terms of each row of L. Rows past the end repeat the last one.
template <int kRows>
__device__ inline void load_rows(const FusedArguments& args, unsigned k,
                                 float (&rows)[kRows][kFusedPatch]) {
  if (args.wide_l != 0) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      unsigned at = kRows == 1 ? 0 : min(static_cast<unsigned>(row), args.m - 1) * args.l_m;
      at += k;
      const float4 v = load_four(args.l + at, k < args.k);
      rows[row][0] = v.x;
      rows[row][1] = v.y;
      rows[row][2] = v.z;
      rows[row][3] = v.w;
    }
    return;
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    unsigned at = kRows == 1 ? 0 : min(static_cast<unsigned>(row), args.m - 1) * args.l_m;
    at += k * args.l_k;
#pragma unroll
    for (int i = 0; i < kFusedPatch; ++i, at += args.l_k) {
      rows[row][i] = k + i < args.k ? args.l[at] : 0.0F;
    }
  }
}

/// Adds `values` over the lanes of a warp that hold other terms of the same columns. Of its 4
/// columns a lane ends with one, (lane >> 3) & 3: it gives away half of what it has in each of the
/// first two steps.
template <int kLanes>
__device__ inline float sum_over_warp(const float (&values)[kFusedPatch], unsigned lane) {
  constexpr unsigned kAll = 0xFFFFFFFFU;
  const bool high = (lane & 16) != 0;
  float first = high ? values[2] : values[0];
  float second = high ? values[3] : values[1];
  first += __shfl_xor_sync(kAll, high ? values[0] : values[2], 16);
  second += __shfl_xor_sync(kAll, high ? values[1] : values[3], 16);
  const bool odd = (lane & 8) != 0;
  float sum = (odd ? second : first) + __shfl_xor_sync(kAll, odd ? first : second, 8);
#pragma unroll
  for (int offset = 4; offset >= kLanes; offset /= 2) {
    sum += __shfl_xor_sync(kAll, sum, offset);
  }
  return sum;
}

__device__ inline float sum_of(const float4& v) {
  return (v.x + v.y) + (v.z + v.w);
}

/// What comes of `value` is computed behind this point, and what `value` comes of before it: the
/// compiler would do all of it before the loads, or behind them.
__device__ inline void settle(unsigned& value) {
  asm volatile("" : "+r"(value));
}

/// A block has 4 << kLanesLog2 columns. Threads of one group, side by side, hold the same terms of
/// the sums of 4 columns each; the groups share out the terms, 4 each at a time. In small problems
/// all loads are on their way before the first is used: there, latency is all there is.
template <ActKind kAct, int kRows, FusedLoads kLoads, int kLanesLog2>
__global__ void __launch_bounds__(kFusedMostThreads)
    fused(const __grid_constant__ FusedArguments args) {
  constexpr unsigned kWarp = 32;
  constexpr unsigned kMostWarps = kFusedMostThreads / kWarp;
  constexpr unsigned kLanes = 1U << kLanesLog2;
  constexpr unsigned kWidth = kFusedPatch * kLanes;
  __shared__ float4 partial[kRows * kWidth * kMostWarps / 4];  // [row][column][warp]
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned begin = blockIdx.x * kWidth;
  const unsigned own = threadIdx.x % kLanes * kFusedPatch;
  const unsigned first = (threadIdx.x >> kLanesLog2) * kFusedPatch;
  const unsigned step = (blockDim.x >> kLanesLog2) * kFusedPatch;
  const bool alone = kRows == 1 && blockDim.x == kWarp;
  const bool sums_one = (lane & 7) < kLanes;

  // The one element that this thread finishes.
  bool finishes = false;
  unsigned z_at = 0;
  unsigned y_at = 0;
  float c = 0.0F;
  float bias = 0.0F;

  float sums[kRows][kFusedPatch] = {};
  for (unsigned base = 0; base < args.k; base += step) {
    FusedPatch patch;
    float rows[kRows][kFusedPatch];
    load_patch<kLoads>(args, base + first, begin + own, patch);
    load_rows<kRows>(args, base + first, rows);
    if (base == 0) {  // while those are on their way
      unsigned thread = threadIdx.x;
      settle(thread);
      const unsigned row = alone ? 0 : thread / kWidth;
      const unsigned column =
          alone ? thread % kLanes * kFusedPatch + thread / 8 % 4 : thread % kWidth;
      const unsigned at = begin + column;
      finishes = (!alone || sums_one) && row < args.m && at < args.n;
      if (finishes && args.c.data != nullptr) {
        c = args.c.data[row * args.c.row_step + at * args.c.column_step];
      }
      if (finishes && args.bias != nullptr) {
        bias = args.bias[row * args.bias_row + at * args.bias_column];
      }
      z_at = row * args.z.row_step + at * args.z.column_step;
      y_at = row * args.y.row_step + at * args.y.column_step;
      settle(z_at);
      settle(y_at);
    }
#pragma unroll
    for (int i = 0; i < kFusedPatch; ++i) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
#pragma unroll
        for (int j = 0; j < kFusedPatch; ++j) {
          sums[row][j] = fmaf(rows[row][i], patch[i][j], sums[row][j]);
        }
      }
    }
  }

  float z = sum_over_warp<kLanes>(sums[0], lane);
  if (!alone) {
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned summed = own + ((lane >> 3) & 3);
    auto* const mine = reinterpret_cast<float*>(partial) + (summed * kMostWarps + warp);
    if (sums_one) *mine = z;
#pragma unroll
    for (int row = 1; row < kRows; ++row) {
      const float sum = sum_over_warp<kLanes>(sums[row], lane);
      if (sums_one) mine[row * kWidth * kMostWarps] = sum;
    }
    __syncthreads();
    if (!finishes) return;
    float quarters[4] = {};
    const unsigned warps = blockDim.x / kWarp;  // a multiple of 4
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if (4 * i < warps) quarters[i] = sum_of(partial[threadIdx.x * (kMostWarps / 4) + i]);
    }
    z = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
  }
  if (!finishes) return;

  z *= args.alpha;
  if (args.c.data != nullptr) z = fmaf(args.beta, c, z);
  if (args.bias != nullptr) z += bias;
  if (args.z.data != nullptr) args.z.data[z_at] = z;
  args.y.data[y_at] = activation::apply<kAct>(z, args.slope);
}

template <ActKind kAct, int kRows, FusedLoads kLoads>
FusedKernel fused_kernel_of(int lanes_log2) noexcept {
  if constexpr (kRows == 1) {
    if (lanes_log2 == 0) return &fused<kAct, kRows, kLoads, 0>;
  }
  if constexpr (kLoads != FusedLoads::AlongK) {
    if (lanes_log2 == 3) return &fused<kAct, kRows, kLoads, 3>;
  }
  return lanes_log2 == 1 ? &fused<kAct, kRows, kLoads, 1> : nullptr;
}

template <ActKind kAct, int kRows>
FusedKernel fused_kernel_of(FusedLoads loads, int lanes_log2) noexcept {
  switch (loads) {
    case FusedLoads::AlongN: return fused_kernel_of<kAct, kRows, FusedLoads::AlongN>(lanes_log2);
    case FusedLoads::AlongK: return fused_kernel_of<kAct, kRows, FusedLoads::AlongK>(lanes_log2);
    case FusedLoads::Single: break;
  }
  return fused_kernel_of<kAct, kRows, FusedLoads::Single>(lanes_log2);
}

template <ActKind kAct>
FusedKernel fused_kernel_of(const FusedForm& form) noexcept {
  switch (form.rows) {
    case 1: return fused_kernel_of<kAct, 1>(form.loads, form.lanes_log2);
    case 2: return fused_kernel_of<kAct, 2>(form.loads, form.lanes_log2);
    case 4: return fused_kernel_of<kAct, 4>(form.loads, form.lanes_log2);
    default: return fused_kernel_of<kAct, 8>(form.loads, form.lanes_log2);
  }
}

}  // namespace ai::kernels
