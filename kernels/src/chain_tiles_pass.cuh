// What blocks of the tiles kernel pass on to each other, and its last layer where that is narrow;
// for chain_tiles.cuh.
#pragma once

#include "kernels/chain_tiles_sums.cuh"

namespace ai::kernels::chain {

template <int count>
__device__ __forceinline__ void store_passed(float* to, const float* v) {
  if constexpr (count == 4) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v[0]),
                 "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
  } else if constexpr (count == 2) {
    asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v[0]), "f"(v[1])
                 : "memory");
  } else {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(v[0]) : "memory");
  }
}

/// Results of one row, the first in `column`, for the next layer and for nobody in the next launch
/// yet. -0 does to sums what 0 does.
template <int l, int count>
__device__ __forceinline__ void pass_on(const Arguments& args, const Where& at, int row, int column,
                                        const float* y) {
  constexpr Layer layer = kLayers[l];
  constexpr int kStride = pass_stride(layer);
  constexpr float kNothing[4] = {};
  if (column >= kStride) return;
  float v[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const bool inside = layer.n == kStride || column + i < layer.n;
    v[i] = !inside || __float_as_uint(y[i]) == 0 ? -0.0F : y[i];
  }
  store_passed<count>(passed_by<l>(args, at.launches) + (row * kStride + column), v);
  store<count>(passed_by<l>(args, at.launches + 1) + (row * kStride + column), kNothing);
}

/// A last layer of few columns: a warp a row.
__device__ __forceinline__ void run_narrow(const Arguments& args, const Where& at) {
  constexpr int l = kDepth - 1;
  constexpr Layer layer = kLayers[l];
  constexpr int kVector = 4;
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
#pragma unroll 1
  for (int turn = 0; turn < kTurns; ++turn) {
    const int in_group = first + turn * kShape.members * kTilesWarps;
    const int row = at.row + in_group;
    if (in_group >= kShape.group || row >= kInput.rows) break;
    const auto* const from =
        reinterpret_cast<const unsigned*>(reads<l>(args, at) + row * kReads<l>);
    unsigned a[kLoads][kVector];
    unsigned least = 0;
    while (least == 0) {
      least = ~0U;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int term = (i * kWarp + at.lane) * kVector;
        a[i][0] = a[i][1] = a[i][2] = a[i][3] = ~0U;
        if (layer.k % (kVector * kWarp) == 0 || term < layer.k) load_words(from + term, a[i]);
        least = min(least, min(min(a[i][0], a[i][1]), min(a[i][2], a[i][3])));
      }
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < layer.n; ++n) {
      if constexpr (layer.has_bias)
        bias[n] = __ldg(args.bias[l] + row * layer.bias_m + n * layer.bias_n);
      float sum[kVector] = {};
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) {
          const bool inside =
              layer.k % (kVector * kWarp) == 0 || (i * kWarp + at.lane) * kVector + v < layer.k;
          if (inside) sum[v] = fmaf(__uint_as_float(a[i][v]), w[i][v][n], sum[v]);
        }
      }
      float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
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
