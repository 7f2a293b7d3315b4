// A tile of the tiles kernel: its products, and sums over lanes and warps; for chain_tiles.cuh.
#pragma once

#include "kernels/chain_tiles_fetch.cuh"

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

template <int count>
__device__ __forceinline__ void load(const float* from, float* to) {
  if constexpr (count == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  } else if constexpr (count == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x;
    to[1] = two.y;
  } else {
    to[0] = *from;
  }
}

template <int count>
__device__ __forceinline__ void store(float* to, const float* from) {
  if constexpr (count == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else if constexpr (count == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
  } else {
    *to = from[0];
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

constexpr int log2_of(int value) {
  return value <= 1 ? 0 : 1 + log2_of(value / 2);
}

/// What a thread adds up: a square of 8 x 8 in which rows lie `kRowGroups` apart, and columns by
/// fours. Neighbouring lanes: bit 0 another column, bit 1 another row (pairs share inputs, pairs
/// share weights, which halves accesses to shared memory).
template <int l>
struct Mine {
  static constexpr Tile tile = kTile<l>;
  static constexpr int kRowGroups = tile.rows / kTilesSide;
  static constexpr int kColumnGroups = tile.columns / kTilesSide;
  static constexpr int kLaneBits = log2_of(kRowGroups * kColumnGroups);
  static constexpr int kSteps = tile.chunk / (4 * tile.slices);
  static constexpr bool halves_columns = tile.slices >= 2;
  static constexpr int kRowStages = log2_of(tile.slices) - (halves_columns ? 1 : 0);
  static_assert(kRowGroups * kColumnGroups * tile.slices == kWarp);
  static_assert(kRowGroups >= 2 && kColumnGroups >= 2 && tile.slices <= 8 && kRowStages <= 2);

  // Of pairs of registers (rows) and of fours (columns): a slice keeps the first ones in the end,
  // so which these are differs.
  int rows[4];
  int columns[2];
  int inputs[4];      // where the rows lie in a chunk
  int weights[2][2];  // and the columns, of even and of odd terms

  __device__ __forceinline__ explicit Mine(int lane) {
    constexpr int kBits = log2_of(kColumnGroups / 2);
    const int column = 4 * ((lane & 1) | (((lane >> 2) & (kColumnGroups / 2 - 1)) << 1));
    const int row = ((lane >> 1) & 1) | (((lane >> (2 + kBits)) & (kRowGroups / 2 - 1)) << 1);
    const int slice = tile.slices == 1 ? 0 : lane >> kLaneBits;
    const int bits = halves_columns ? slice >> 1 : slice;
    const int flip_columns = halves_columns ? slice & 1 : 0;
    int flip = 0;
    if constexpr (kRowStages >= 1) flip |= (bits & 1) * 2;
    if constexpr (kRowStages >= 2) flip |= (bits >> 1) & 1;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      constexpr int kKept = kRowStages == 0 ? 4 : kRowStages == 1 ? 2 : 1;
      rows[p] = p % kKept == 0 ? row + kRowGroups * 2 * (p ^ flip)
                               : rows[p - p % kKept] + kRowGroups * 2 * (p % kKept);
      inputs[p] = p % kKept == 0
                      ? rows[p] * tile.stride + 4 * slice
                      : inputs[p - p % kKept] + kRowGroups * 2 * (p % kKept) * tile.stride;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      columns[j] = column + 4 * kColumnGroups * (j ^ flip_columns);
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int swap = tile.columns == 16 ? (slice >> 1) & 1 : 0;  // as place_of has it
        weights[odd][j] = (4 * slice + (odd ^ swap) - odd) * tile.columns + columns[j];
      }
    }
  }
  __device__ __forceinline__ int row_at(int i) const {
    return rows[i / 2] + kRowGroups * (i % 2);
  }
};

template <int l>
__device__ __forceinline__ void load_rows(const Mine<l>& mine, const float* inputs, int step,
                                          float (&a)[8][4]) {
  constexpr Tile tile = kTile<l>;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    load<4>(inputs + mine.inputs[i / 2] + i % 2 * Mine<l>::kRowGroups * tile.stride +
                4 * step * tile.slices,
            a[i]);
  }
}

template <int l>
__device__ __forceinline__ void load_columns(const Mine<l>& mine, const float* weights, int step,
                                             int k, float (&b)[8]) {
  constexpr Tile tile = kTile<l>;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    load<4>(weights + mine.weights[k % 2][j] + (4 * step * tile.slices + k) * tile.columns,
            b + 4 * j);
  }
}

__device__ __forceinline__ void multiply(const float (&a)[8][4], int k, const float (&b)[8],
                                         float (&sums)[8][8]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i][j] = fmaf(a[i][k], b[j], sums[i][j]);
  }
}

/// The warp's share of every sum of its tile.
template <int l, int round>
__device__ __forceinline__ void add_up(const Arguments& args, const Where& at, const Mine<l>& mine,
                                       float (&sums)[8][8], float (&held)[kShape.slots][kHeld]) {
  constexpr Tile tile = kTile<l>;
  constexpr int kChunks = tile.chunks;
  constexpr int kSteps = Mine<l>::kSteps;
  constexpr int kFree = kShape.ahead - kChunks;
  constexpr bool through_registers = l == 0 && round == 0 && kThroughRegisters;
  const auto inputs_of = [&](int c) { return at.inputs + c % kShape.slots * kLayout.inputs; };
  const auto weights_of = [&](int c) {
    return at.weights + (kFirstChunk<l, round> + c) % kShape.ahead * kLayout.weights;
  };
  const auto finish_chunk = [&](int c) {
    __syncwarp();
    if constexpr (through_registers) {
      if (c == 0) {
#pragma unroll
        for (int i = 1; i < kShape.slots; ++i)
          if (i < kChunks) keep_inputs(at, i, held[i]);
        __syncwarp();
      }
    }
    if (c + kShape.slots < kChunks) request_inputs<l, round>(args, at, c + kShape.slots);
    if (kChunks > kShape.ahead && c + kShape.ahead < kChunks)
      request_weights<l, round>(args, at, c + kShape.ahead);
    const int begin = c == 0 || kFree + c < 0 ? 0 : kFree + c;
    request_ahead<kNextLayer<l, round>, kNextRound<l, round>>(args, at, begin, kFree + c + 1);
    commit();
  };
#pragma unroll 1
  for (int c = 0; c < kChunks; ++c) {
    wait_for_all_but<kShape.slots - 1>();
    __syncwarp();
    const float* const inputs = inputs_of(c);
    const float* const weights = weights_of(c);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      float a[8][4];
      load_rows<l>(mine, inputs, step, a);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float b[8];
        load_columns<l>(mine, weights, step, k, b);
        multiply(a, k, b, sums);
      }
    }
    finish_chunk(c);
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
    if constexpr (!passes_y(layer) && l + 1 < kDepth) {
      constexpr int kStride = pass_stride(layer);
      float* const pass = args.scratch + scratch_of(kInput, kLayers, l) + row * kStride;
      if (column < kStride) store<kVector>(pass + column, y);
    }
    if constexpr (layer.writes_y)
      write<l, layer.y16, kVector>(args.y[l] + row * layer.y_m, column, y);
    if constexpr (layer.writes_z)
      write<l, layer.z16, kVector>(args.z[l] + row * layer.z_m, column, z);
  }
}

}  // namespace ai::kernels::chain
