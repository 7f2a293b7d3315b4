// How blocks of the tiles kernel know of each other's results, and its last layer where that is
// narrow; for chain_tiles.cuh.
#pragma once

#include "kernels/chain_tiles_sums.cuh"

namespace ai::kernels::chain {

/// Tells whoever waits that what the block wrote is there.
__device__ __forceinline__ void arrive(unsigned* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

__device__ __forceinline__ void await(const unsigned* counter, unsigned count) {
  unsigned seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (static_cast<int>(seen - count) < 0);
}

__device__ __forceinline__ unsigned* counter_of(const Arguments& args, const Where& at, int layer) {
  constexpr int kFirst = counter_at(kInput, kShape, kDepth, 0, 0);
  constexpr int kEach = counter_at(kInput, kShape, kDepth, 0, 1) - kFirst;
  return args.state + kFirst + (at.group * kDepth + layer) * kEach;
}

/// Blocks that have come to a counter of layer l once its results are there.
template <int l>
__device__ __forceinline__ unsigned arrivals(int counter) {
  constexpr Tile tile = kTile<l>;
  if constexpr (counters_of(kLayers, kDepth, kShape, l) == 1) {
    return tile.across * tile.down;
  } else {
    constexpr int kEach = kTile<l + 1>.terms / tile.columns;
    int tiles = tile.across - counter * kEach;
    if (tiles > kEach) tiles = kEach;
    return tiles > 0 ? tiles * tile.down : 0;
  }
}

/// Until what a warp reads of layer l's results is there.
template <int l>
__device__ __forceinline__ void wait_for(const Arguments& args, const Where& at) {
  constexpr bool apart = counters_of(kLayers, kDepth, kShape, l) > 1;
  if (at.lane == 0) {
    const int counter = apart ? at.warp : 0;
    await(counter_of(args, at, l) + counter * kCounterStride,
          (at.launches + 1) * arrivals<l>(counter));
  }
  __syncwarp();
}

/// A last layer of few columns: a warp a row.
__device__ __forceinline__ void run_narrow(const Arguments& args, const Where& at) {
  constexpr int l = kDepth - 1;
  constexpr Layer layer = kLayers[l];
  constexpr bool fours = layer.k % 4 == 0;
  constexpr int kVector = fours ? 4 : 1;
  constexpr int kLoads = div_up(layer.k, kVector * kWarp);
  constexpr int kTurns = div_up(kShape.group, kShape.members * kTilesWarps);
  const int first = at.warp * kShape.members + at.member;
  if (first >= kShape.group || at.row + first >= kInput.rows) return;
  float w[kLoads][kVector][layer.n];
  float bias[layer.n] = {};
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const int term = (i * kWarp + at.lane) * kVector + v;
#pragma unroll
      for (int n = 0; n < layer.n; ++n) {
        w[i][v][n] = term < layer.k ? __ldg(args.w[l] + term * layer.w_k + n * layer.w_n) : 0.0F;
      }
    }
  }
  wait_for<kTiled - 1>(args, at);
#pragma unroll 1
  for (int turn = 0; turn < kTurns; ++turn) {
    const int in_group = first + turn * kShape.members * kTilesWarps;
    const int row = at.row + in_group;
    if (in_group >= kShape.group || row >= kInput.rows) break;
    const float* const from = reads<l>(args) + row * kReads<l>;
    float a[kLoads][kVector];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int term = (i * kWarp + at.lane) * kVector;
      const bool inside = layer.k % (kVector * kWarp) == 0 || term < layer.k;
      if constexpr (fours) {
        float4 four = {};
        if (inside) four = __ldcg(reinterpret_cast<const float4*>(from + term));
        a[i][0] = four.x;
        a[i][1] = four.y;
        a[i][2] = four.z;
        a[i][3] = four.w;
      } else {
        a[i][0] = inside ? __ldcg(from + term) : 0.0F;
      }
    }
#pragma unroll
    for (int n = 0; n < layer.n; ++n) {
      if constexpr (layer.has_bias)
        bias[n] = __ldg(args.bias[l] + row * layer.bias_m + n * layer.bias_n);
      float sum[kVector] = {};
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] = fmaf(a[i][v], w[i][v][n], sum[v]);
      }
      float total = sum[0];
      if constexpr (fours) total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
#pragma unroll
      for (int offset = kWarp / 2; offset > 0; offset /= 2)
        total += __shfl_xor_sync(~0U, total, offset);
      float z = layer.alpha * total;
      if constexpr (layer.has_bias) z += bias[n];
      if (at.lane == 0) {
        if constexpr (layer.writes_z) args.z[l][row * layer.z_m + n] = z;
        args.y[l][row * layer.y_m + n] = activation::apply<layer.act>(z, layer.slope);
      }
    }
  }
}

}  // namespace ai::kernels::chain
