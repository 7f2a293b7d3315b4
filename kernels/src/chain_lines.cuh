// The chain kernel for rows that are short and not many; behind the same specification as
// chain_rows.cuh. A warp takes one row through all layers, each lane some of its columns.
//
// Nothing is left to do but to wait, for one layer after the other: so weights are taken from
// shared memory to registers before what they are multiplied by is known.

#include "kernels/chain_rows_fetch.cuh"

namespace ai::kernels::chain {

/// Columns of a lane, 32 apart.
template <int l>
constexpr int kColumns = kTiling<l>.vectors;
constexpr int kMostHeld = 128;
/// Whether a lane has the registers for all its weights of layer l.
template <int l>
constexpr bool kIsHeld = kTiling<l>.terms* kColumns<l> <= kMostHeld;
template <int l>
using Weights = float[kIsHeld<l> ? kTiling<l>.terms : 1][kColumns<l>];

/// The weight of the lane's first column and term 0.
template <int l>
__device__ inline const float* own_weights(const Where& at) {
  return weights_at<l>(at, l) + at.lane;
}

template <int l>
__device__ __forceinline__ void hold_weights(const Where& at, Weights<l>& w) {
  if constexpr (kIsHeld<l>) {
    const float* const from = own_weights<l>(at);
#pragma unroll
    for (int k = 0; k < kTiling<l>.terms; ++k) {
#pragma unroll
      for (int v = 0; v < kColumns<l>; ++v) w[k][v] = from[k * kTiling<l>.columns + v * kWarp];
    }
  }
}

/// The lane's part of Z, alpha and bias left out.
template <int l>
__device__ __forceinline__ void add_up(const Where& at, const Weights<l>& w,
                                       float (&sums)[kColumns<l>]) {
  constexpr int kParts = 4;  // independent ones, for the sake of latency
  float parts[kColumns<l>][kParts] = {};
  const float* const weights = own_weights<l>(at);
#pragma unroll
  for (int k = 0; k < kTiling<l>.terms; k += kParts) {
    const float4 four = *reinterpret_cast<const float4*>(at.values + k);
    const float x[kParts] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int v = 0; v < kColumns<l>; ++v) {
#pragma unroll
      for (int q = 0; q < kParts; ++q) {
        float weight;
        if constexpr (kIsHeld<l>) {
          weight = w[k + q][v];
        } else {
          weight = weights[(k + q) * kTiling<l>.columns + v * kWarp];
        }
        parts[v][q] = fmaf(x[q], weight, parts[v][q]);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < kColumns<l>; ++v) {
    sums[v] = (parts[v][0] + parts[v][1]) + (parts[v][2] + parts[v][3]);
  }
}

/// Layers l and on.
template <int l>
__device__ __forceinline__ void compute(const Arguments& args, const Where& at,
                                        const Weights<l>& w) {
  constexpr Layer layer = kLayers[l];
  constexpr bool last = l + 1 == kDepth;
  const float* const biases = at.shared + kBiasesAt<l>;
  float sums[kColumns<l>];
  float bias[kColumns<l>] = {};
  if constexpr (layer.has_bias) {
#pragma unroll
    for (int v = 0; v < kColumns<l>; ++v) {
      bias[v] = biases[layer.bias_m != 0 ? at.row_in_block : at.lane + v * kWarp];
    }
  }
  add_up<l>(at, w, sums);
  constexpr int kNext = last ? l : l + 1;
  Weights<kNext> next;
  if constexpr (!last) {
    await_weights<kNext>(args, at, kNext);
    hold_weights<kNext>(at, next);
  }
  __syncwarp();  // all have read the values
#pragma unroll
  for (int v = 0; v < kColumns<l>; ++v) {
    const int column = at.lane + v * kWarp;
    const float z = fmaf(layer.alpha, sums[v], bias[v]);
    const float y = activation::apply<layer.act>(z, layer.slope);
    if constexpr (!last) at.values[column] = column < layer.n ? y : 0.0F;
    if (column < layer.n && at.row < kInput.rows) {
      if constexpr (layer.writes_z) args.z[l][at.row * layer.z_m + column] = z;
      if constexpr (layer.writes_y) args.y[l][at.row * layer.y_m + column] = y;
    }
  }
  if constexpr (!last) {
    __syncwarp();
    compute<kNext>(args, at, next);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) float shared[];
  const Where at = start(args, shared);
  Weights<0> w;
  hold_weights<0>(at, w);
  compute<0>(args, at, w);
}

}  // namespace ai::kernels::chain
