// The tiles kernel: a network of middle batches in one cooperative launch. It is compiled at run
// time, behind a specification: kInput, kShape, kDepth and kLayers[kDepth], all constants.
//
// Groups of blocks have rows of their own and never talk to each other. In a block the terms of a
// tile are shared out over the warps, and everything that a warp reads it has fetched itself: no
// barrier of the block while it multiplies. As a chunk of weights is used up, its room is filled
// with weights of the next layer, so that these are there when their layer begins; what it waits
// for is the other blocks' results alone.

#include "kernels/chain_tiles_sums.cuh"

namespace ai::kernels::chain {

__device__ __forceinline__ unsigned* counter_of(const Arguments& args, const Where& at, int layer) {
  constexpr int kFirst = counter_at(kInput, kShape, kDepth, 0, 0);
  constexpr int kEach = counter_at(kInput, kShape, kDepth, 0, 1) - kFirst;
  return args.state + kFirst + (at.group * kDepth + layer) * kEach;
}

/// Warps that have come to a counter of layer l once its results are there.
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

/// Stages from (l, round) on.
template <int l, int round>
__device__ __forceinline__ void run(const Arguments& args, const Where& at,
                                    float (&held)[kShape.slots][kHeld]) {
  if constexpr (l < kTiled) {
    constexpr Tile tile = kTile<l>;
    constexpr Layer layer = kLayers[l];
    constexpr bool begins = l == 0 && round == 0;
    constexpr bool ends = l + 1 == kDepth && round + 1 == tile.rounds;
    constexpr int kEach = tile.rows * tile.columns / kTilesThreads;
    constexpr int kVector = kEach < 4 ? kEach : 4;
    if (has_tile<l, round>(at)) {
      float bias[kEach] = {};
      if constexpr (layer.has_bias) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const int e =
              (i / kVector * kTilesThreads + static_cast<int>(threadIdx.x)) * kVector + i % kVector;
          const int row = clamped(row_of<l, round>(at) + e / tile.columns);
          const int column = column_of<l, round>(at) + e % tile.columns;
          if (tile.across * tile.columns == layer.n || column < layer.n)
            bias[i] = __ldg(args.bias[l] + row * layer.bias_m + column * layer.bias_n);
        }
      }
      if constexpr (!begins) {
        if constexpr (round == 0) wait_for<l == 0 ? 0 : l - 1>(args, at);
#pragma unroll
        for (int c = 0; c < kShape.slots; ++c) {
          if (c < tile.chunks) request_inputs<l, round>(args, at, c);
          commit();
        }
      }
      const Mine<l> mine(at.lane);
      float sums[8][8] = {};
      add_up<l, round>(args, at, mine, sums, held);
      finish<l, round>(args, at, mine, sums, bias);
      if constexpr (l + 1 < kDepth) {
        constexpr int kReader = l + 1 < kTiled ? l + 1 : l;
        int counter = 0;
        if constexpr (counters_of(kLayers, kDepth, kShape, l) > 1)
          counter = column_of<l, round>(at) / kTile<kReader>.terms;
        unsigned* const to = counter_of(args, at, l) + counter * kCounterStride;
        __syncthreads();
        if (threadIdx.x == 0) arrive(to);
      }
    } else {
      request_ahead<kNextLayer<l, round>, kNextRound<l, round>>(args, at, 0, kShape.ahead);
      commit();
    }
    // Sums were read where the next inputs go.
    if constexpr (l + 1 == kDepth && !ends) __syncthreads();
    run<kNextLayer<l, round>, kNextRound<l, round>>(args, at, held);
  }
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

extern "C" __global__ void __launch_bounds__(kTilesThreads, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) float shared[];
  Where at;
  at.warp = static_cast<int>(threadIdx.x) / kWarp;
  at.lane = static_cast<int>(threadIdx.x) % kWarp;
  at.group = static_cast<int>(blockIdx.x) / kShape.members;
  at.member = static_cast<int>(blockIdx.x) % kShape.members;
  at.row = at.group * kShape.group;
  at.all = shared;
  at.inputs = shared + at.warp * kLayout.region;
  at.weights = shared + kLayout.weights_at + at.warp * (kShape.ahead * kLayout.weights);
  float held[kShape.slots][kHeld];
  if (has_tile<0, 0>(at)) {
    if constexpr (kThroughRegisters) {
#pragma unroll
      for (int c = 0; c < kShape.slots; ++c)
        if (c < kTile<0>.chunks) load_inputs(args, at, c, held[c]);
    }
#pragma unroll
    for (int c = 0; c < kShape.slots; ++c) {
      if (c < kTile<0>.chunks) {
        request_weights<0, 0>(args, at, c);
        if constexpr (!kThroughRegisters) request_inputs<0, 0>(args, at, c);
      }
      if (c + 1 == kShape.slots) request_ahead<0, 0>(args, at, kShape.slots, kShape.ahead);
      commit();
    }
    if constexpr (kThroughRegisters) keep_inputs(at, 0, held[0]);
  }
  const unsigned launches = args.state[blockIdx.x];
  at.launches = launches;
  run<0, 0>(args, at, held);
  if constexpr (kTiled < kDepth) run_narrow(args, at);
  if (kDepth > 1 && threadIdx.x == 0) args.state[blockIdx.x] = launches + 1;
}

}  // namespace ai::kernels::chain
