// A warp's share of a tile of the tiles kernel; for chain_tiles.cuh.
#pragma once

#include "kernels/chain_tiles_weights.cuh"

namespace ai::kernels::chain {

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

/// Chunks of the first layer come by so many parts.
constexpr int kParts =
    kTile<0>.chunk == 32 && kTile<0>.chunk / (4 * kTile<0>.slices) % 2 == 0 ? 2 : 1;

/// Weights of stage (l, round), where there is one: chunks [begin, end) of those that are requested
/// early.
template <int l, int round>
struct Ahead {
  Weights<l, round> weights;
  __device__ __forceinline__ Ahead(const Arguments& args, const Where& at) : weights(args, at) {}
  __device__ __forceinline__ void take(const Where& at, int begin, int end) const {
    if (!has_tile<l, round>(at)) return;
    if (end > kEarly<l>) end = kEarly<l>;
#pragma unroll 1
    for (int c = begin; c < end; ++c) weights.take(at, c);
  }
};
template <int l, int round>
requires(l >= kTiled) struct Ahead<l, round> {
  __device__ __forceinline__ Ahead(const Arguments&, const Where&) {}
  __device__ __forceinline__ void take(const Where&, int, int) const {}
};

/// Until chunk c, which has been taken, is one that the other blocks had written.
template <int l, int round>
__device__ __forceinline__ void await(const Inputs<l, round>& own, const Where& at, int c) {
  while (!__all_sync(~0U, own.is_there(at, c))) {
    own.take(at, c);
    end_group();
    wait_for_groups<0>();
  }
}

/// The warp's share of every sum of its tile.
template <int l, int round>
__device__ __forceinline__ void add_up(const Arguments& args, const Where& at, const Mine<l>& mine,
                                       const Inputs<l, round>& own, float (&sums)[8][8]) {
  constexpr Tile tile = kTile<l>;
  constexpr int kChunks = tile.chunks;
  constexpr int kSteps = Mine<l>::kSteps;
  constexpr int kFree = kShape.ahead - kChunks;
  const auto inputs_of = [&](int c) { return at.inputs + c % kShape.slots * kLayout.inputs; };
  const auto weights_of = [&](int c) {
    return at.weights + (kFirstChunk<l, round> + c) % kShape.ahead * kLayout.weights;
  };
  const Weights<l, round> own_weights(args, at);
  const Ahead<kNextLayer<l, round>, kNextRound<l, round>> next(args, at);
  const auto request_next = [&](int c) {
    const int begin = c == 0 || kFree + c < 0 ? 0 : kFree + c;
    next.take(at, begin, kFree + c + 1);
  };
  const auto add_steps = [&](int c, int begin, int end) {
    const float* const inputs = inputs_of(c);
    const float* const weights = weights_of(c);
#pragma unroll 4
    for (int step = begin; step < end; ++step) {
      float a[8][4];
      load_rows<l>(mine, inputs, step, a);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float b[8];
        load_columns<l>(mine, weights, step, k, b);
        multiply(a, k, b, sums);
      }
    }
  };
  if constexpr (l == 0 && round == 0) {
    // Nothing hides what the first values take: so they come by parts of a chunk.
#pragma unroll 1
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (c + 1 < kChunks) {
          own.template take<kParts>(at, c + 1, part);
          own_weights.template take<kParts>(at, c + 1, part);
        }
        end_group();
        wait_for_groups<kParts>();
        __syncwarp();
        add_steps(c, part * (kSteps / kParts), (part + 1) * (kSteps / kParts));
      }
      __syncwarp();
      request_next(c);
    }
    end_group();
  } else {
#pragma unroll 1
    for (int c = 0; c < kChunks; ++c) {
      wait_for_groups<kShape.slots - 1>();
      if constexpr (l > 0) {
        if (c > 0) await(own, at, c);
      }
      __syncwarp();
      add_steps(c, 0, kSteps);
      __syncwarp();
      if (c + kShape.slots < kChunks) own.take(at, c + kShape.slots);
      if constexpr (kChunks > kShape.ahead) {
        if (c + kShape.ahead < kChunks) own_weights.take(at, c + kShape.ahead);
      }
      request_next(c);
      end_group();
    }
  }
}

}  // namespace ai::kernels::chain
