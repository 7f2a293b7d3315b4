// The tiles kernel: a network of middle batches in one cooperative launch. It is compiled at run
// time, behind a specification: kInput, kShape, kDepth and kLayers[kDepth], all constants.
//
// Groups of blocks have rows of their own and never talk to each other. In a block the terms of a
// tile are shared out over the warps, and everything that a warp reads it has fetched itself: no
// barrier of the block while it multiplies. As a chunk of weights is used up, its room is filled
// with weights of the next layer, so that these are there when their layer begins; what it waits
// for is the other blocks' results alone.
//
// What is passed on is its own flag: an element is 0 until it is there, and 0 is passed on as -0. A
// warp fetches a chunk until nothing in it is 0; words are never seen in parts, and copies that
// bypass the first cache see what others have written. There are two sets of elements: a launch
// uses one and clears the other for the next. Which one is told by a count of launches that each
// block keeps for itself.

#include "kernels/chain_tiles_pass.cuh"

namespace ai::kernels::chain {

/// Sum of p[first ... first + count)[v], as a tree.
template <int first, int count, int n, int m>
__device__ __forceinline__ float tree(const float (&p)[n][m], int v) {
  if constexpr (count == 1) {
    return p[first][v];
  } else {
    return tree<first, count / 2>(p, v) + tree<first + count / 2, count / 2>(p, v);
  }
}

/// `count` values side by side in a row, the first in `column`, of which the matrix has some.
template <int l, bool fours, int count>
__device__ __forceinline__ void write(float* row, int column, const float* values) {
  if constexpr (fours && kLayers[l].n % 4 == 0) {
    if (column < kLayers[l].n) store<count>(row + column, values);
  } else {
#pragma unroll
    for (int v = 0; v < count; ++v) {
      if (column + v < kLayers[l].n) row[column + v] = values[v];
    }
  }
}

/// Over the slices of a warp: a lane keeps the first half of its registers each time. Then over the
/// warps, through shared memory, and out.
template <int l, int round>
__device__ __forceinline__ void finish(const Arguments& args, const Where& at, const Mine<l>& mine,
                                       float (&sums)[8][8], const float* bias) {
  constexpr Tile tile = kTile<l>;
  constexpr Layer layer = kLayers[l];
  using M = Mine<l>;
  if constexpr (M::halves_columns) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int q = 0; q < 4; ++q)
        sums[i][q] += __shfl_xor_sync(~0U, sums[i][4 + q], 1 << M::kLaneBits);
    }
  }
  constexpr int kBit = M::kLaneBits + (M::halves_columns ? 1 : 0);
  constexpr int kColumns = M::halves_columns ? 4 : 8;
  if constexpr (M::kRowStages >= 1) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int q = 0; q < kColumns; ++q)
        sums[i][q] += __shfl_xor_sync(~0U, sums[i + 4][q], 1 << kBit);
    }
  }
  if constexpr (M::kRowStages >= 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int q = 0; q < kColumns; ++q)
        sums[i][q] += __shfl_xor_sync(~0U, sums[i + 2][q], 2 << kBit);
    }
  }
  // The warp's inputs are used up, and none is on its way.
#pragma unroll
  for (int i = 0; i < (8 >> M::kRowStages); ++i) {
#pragma unroll
    for (int j = 0; j < kColumns / 4; ++j)
      store<4>(at.inputs + mine.row_at(i) * tile.columns + mine.columns[j], sums[i] + 4 * j);
  }
  __syncthreads();
  constexpr int kElements = tile.rows * tile.columns;
  constexpr int kEach = kElements / kTilesThreads;
  constexpr int kVector = kEach < 4 ? kEach : 4;
  static_assert(kEach == 1 || kEach == 2 || kEach % 4 == 0);
#pragma unroll
  for (int i = 0; i < kEach / kVector; ++i) {
    const int e = (i * kTilesThreads + static_cast<int>(threadIdx.x)) * kVector;
    const int row = row_of<l, round>(at) + e / tile.columns;
    const int column = column_of<l, round>(at) + e % tile.columns;
    float parts[kTilesWarps][kVector];
#pragma unroll
    for (int w = 0; w < kTilesWarps; ++w) load<kVector>(at.all + w * kLayout.region + e, parts[w]);
    float z[kVector];
    float y[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      z[v] = layer.alpha * tree<0, kTilesWarps>(parts, v);
      if constexpr (layer.has_bias) z[v] += bias[i * kVector + v];
      y[v] = activation::apply<layer.act>(z[v], layer.slope);
    }
    if (!kWholeGroups && row >= kInput.rows) continue;
    if constexpr (l + 1 < kDepth) pass_on<l, kVector>(args, at, row, column, y);
    if constexpr (layer.writes_y)
      write<l, layer.y16, kVector>(args.y[l] + row * layer.y_m, column, y);
    if constexpr (layer.writes_z)
      write<l, layer.z16, kVector>(args.z[l] + row * layer.z_m, column, z);
  }
}

/// Stages from (l, round) on.
template <int l, int round>
__device__ __forceinline__ void run(const Arguments& args, const Where& at) {
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
      const Inputs<l, round> own(args, at);
      if constexpr (!begins) {
        if constexpr (l > 0) {
          own.take(at, 0);
          end_group();
          wait_for_groups<0>();
          await(own, at, 0);
        }
#pragma unroll
        for (int c = l > 0 ? 1 : 0; c < kShape.slots; ++c) {
          if (c < tile.chunks) own.take(at, c);
          end_group();
        }
      }
      const Mine<l> mine(at.lane);
      float sums[8][8] = {};
      add_up<l, round>(args, at, mine, own, sums);
      finish<l, round>(args, at, mine, sums, bias);
      // Sums were read where the next inputs go. And every thread has read how often the block was
      // launched, before that changes: each block has a tile.
      if constexpr (!ends) __syncthreads();
    } else {
      const Ahead<kNextLayer<l, round>, kNextRound<l, round>> next(args, at);
      next.take(at, 0, kShape.ahead);
      end_group();
    }
    run<kNextLayer<l, round>, kNextRound<l, round>>(args, at);
  }
}

extern "C" __global__ void __launch_bounds__(kTilesThreads, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(128) float shared[];
  if (args.x == nullptr) return;  // Step::enqueue
  Where at;
  at.warp = static_cast<int>(threadIdx.x) / kWarp;
  at.lane = static_cast<int>(threadIdx.x) % kWarp;
  at.group = static_cast<int>(blockIdx.x) / kShape.members;
  at.member = static_cast<int>(blockIdx.x) % kShape.members;
  at.row = at.group * kShape.group;
  at.all = shared;
  at.inputs = shared + at.warp * kLayout.region;
  at.weights = shared + kLayout.weights_at + at.warp * (kShape.ahead * kLayout.weights);
  if (has_tile<0, 0>(at)) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      Inputs<0, 0>(args, at).take<kParts>(at, 0, part);
      Weights<0, 0>(args, at).take<kParts>(at, 0, part);
      end_group();
    }
  }
  const unsigned launches = args.state[blockIdx.x];
  at.launches = launches;
  run<0, 0>(args, at);
  if constexpr (kTiled < kDepth) run_narrow(args, at);
  if (kDepth > 1 && threadIdx.x == 0) args.state[blockIdx.x] = launches + 1;
}

}  // namespace ai::kernels::chain
