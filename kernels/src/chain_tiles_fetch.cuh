// What warps of the tiles kernel fetch: inputs, and weights of this layer and the next; for
// chain_tiles.cuh and behind the same specification.
#pragma once

namespace ai::kernels::chain {

struct Arguments {
  const float* x;
  const float* w[kDepth];
  const float* bias[kDepth];
  float* y[kDepth];
  float* z[kDepth];
  unsigned* state;
  float* scratch;
};

constexpr int kTiled = tiled_of(kLayers, kDepth);
constexpr TilesLayout kLayout = tiles_layout(kLayers, kDepth, kShape);
constexpr bool kWholeGroups = kInput.rows % kShape.group == 0;
static_assert(kShape.ahead >= kShape.slots);

template <int l>
constexpr Tile kTile = tile_of(kLayers[l], kShape);

struct Where {
  int warp;
  int lane;
  int group;
  int member;
  int row;  // the first of the group
  unsigned launches;
  float* inputs;   // of the warp, and then its sums
  float* weights;  // of the warp
  float* all;      // inputs of all warps
};

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// 16 bytes, so many elements behind `to` and `from`.
template <int to_offset, int from_offset>
__device__ __forceinline__ void copy16(unsigned to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16;" ::"r"(to), "l"(from),
               "n"(4 * to_offset), "n"(4 * from_offset)
               : "memory");
}

/// `bytes` of 16, and zeros.
__device__ __forceinline__ void copy16(unsigned to, const float* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void copy4(unsigned to, const float* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

__device__ __forceinline__ void commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int count>
__device__ __forceinline__ void wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(count) : "memory");
}

/// Tells whoever waits that this warp's results, or this thread's, are written.
__device__ __forceinline__ void arrive(unsigned* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

__device__ __forceinline__ void await(const unsigned* counter, unsigned count) {
  unsigned seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (static_cast<int>(seen - count) < 0);
}

/// `count` times 16 bytes, evenly spaced.
template <int count, int to_step, int from_step, int i = 0>
__device__ __forceinline__ void copy_all(unsigned to, const float* from) {
  if constexpr (i < count) {
    copy16<i * to_step, i * from_step>(to, from);
    copy_all<count, to_step, from_step, i + 1>(to, from);
  }
}

/// A stage is the tile of one layer and round. The stage after (l, round):
template <int l, int round>
constexpr int kNextLayer = round + 1 < kTile<l>.rounds ? l : l + 1;
template <int l, int round>
constexpr int kNextRound = round + 1 < kTile<l>.rounds ? round + 1 : 0;

/// Chunks of weights of all stages before one.
template <int l>
constexpr int kChunksBefore = kChunksBefore<l - 1> + kTile<l - 1>.rounds* kTile<l - 1>.chunks;
template <>
constexpr int kChunksBefore<0> = 0;
template <int l, int round>
constexpr int kFirstChunk = kChunksBefore<l> + round* kTile<l>.chunks;

/// Chunks of weights that are requested before a layer begins.
template <int l>
constexpr int kEarly = kTile<l>.chunks < kShape.ahead ? kTile<l>.chunks : kShape.ahead;

template <int l, int round>
__device__ __forceinline__ bool has_tile(const Where& at) {
  constexpr Tile tile = kTile<l>;
  constexpr int kCount = tile.across * tile.down;
  return (round + 1) * kShape.members <= kCount || at.member + round * kShape.members < kCount;
}

template <int l, int round>
__device__ __forceinline__ int row_of(const Where& at) {
  return at.row + (at.member + round * kShape.members) / kTile<l>.across * kTile<l>.rows;
}

template <int l, int round>
__device__ __forceinline__ int column_of(const Where& at) {
  return (at.member + round * kShape.members) % kTile<l>.across * kTile<l>.columns;
}

/// Rows past the end are read as the last one, and not written.
__device__ __forceinline__ int clamped(int row) {
  return kWholeGroups || row < kInput.rows ? row : kInput.rows - 1;
}

/// What layer l reads, row m at [m * kReads<l>].
template <int l>
constexpr int kReads = l == 0 ? kInput.x_m : pass_stride(kLayers[l == 0 ? 0 : l - 1]);

template <int l>
__device__ __forceinline__ const float* reads(const Arguments& args) {
  if constexpr (l == 0) {
    return args.x;
  } else if constexpr (passes_y(kLayers[l - 1])) {
    return args.y[l - 1];
  } else {
    return args.scratch + scratch_of(kInput, kLayers, l - 1);
  }
}

template <int l>
constexpr bool kReadsFours = l > 0 || (kInput.x16 && kInput.x_k == 1);

/// Chunk c of a warp's inputs.
template <int l, int round>
__device__ __forceinline__ void request_inputs(const Arguments& args, const Where& at, int c) {
  constexpr Tile tile = kTile<l>;
  constexpr int k = kLayers[l].k;
  const int row0 = row_of<l, round>(at);
  const int first = at.warp * tile.terms + c * tile.chunk;
  const unsigned to = shared_address(at.inputs + c % kShape.slots * kLayout.inputs);
  if constexpr (kReadsFours<l>) {
    constexpr int kQuads = tile.chunk / 4;
    constexpr int kRows = kWarp / kQuads;
    constexpr int kCount = tile.rows / kRows;
    static_assert(tile.rows % kRows == 0);
    const int row = at.lane / kQuads;
    const int term = first + at.lane % kQuads * 4;
    const int left = k - term;
    const int bytes = left >= 4 ? 16 : left > 0 ? 4 * left : 0;
    const float* const from = reads<l>(args) + (left > 0 ? term : 0);
    const unsigned put = to + (row * tile.stride + at.lane % kQuads * 4) * 4;
    if constexpr (kWholeGroups && tile.terms * kTilesWarps == k) {
      copy_all<kCount, kRows * tile.stride, kRows * kReads<l>>(put,
                                                               from + (row0 + row) * kReads<l>);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        copy16(put + i * kRows * tile.stride * 4,
               from + clamped(row0 + row + i * kRows) * kReads<l>, bytes);
      }
    }
  } else {
#pragma unroll 8
    for (int i = 0; i < tile.rows * tile.chunk / kWarp; ++i) {
      const int e = i * kWarp + at.lane;
      const int row = e / tile.chunk;
      const int term = e % tile.chunk;
      const bool valid = first + term < k;
      copy4(to + (row * tile.stride + term) * 4,
            reads<l>(args) + clamped(row0 + row) * kReads<l> +
                (valid ? first + term : 0) * kInput.x_k,
            valid);
    }
  }
}

/// The network's input where it lies as no fours: through registers, which is quicker than copies
/// of 4 bytes.
constexpr int kHeld = kTile<0>.rows * kTile<0>.chunk / kWarp;
constexpr bool kThroughRegisters = !kReadsFours<0> && kHeld * kShape.slots <= 64;

__device__ __forceinline__ void load_inputs(const Arguments& args, const Where& at, int c,
                                            float (&held)[kHeld]) {
  constexpr Tile tile = kTile<0>;
  const int row0 = row_of<0, 0>(at);
  const int first = at.warp * tile.terms + c * tile.chunk;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int e = i * kWarp + at.lane;
    const int term = first + e % tile.chunk;
    const float* const from =
        args.x + clamped(row0 + e / tile.chunk) * kInput.x_m + term * kInput.x_k;
    held[i] = term < kLayers[0].k ? __ldg(from) : 0.0F;
  }
}

__device__ __forceinline__ void keep_inputs(const Where& at, int c, const float (&held)[kHeld]) {
  constexpr Tile tile = kTile<0>;
  float* const to = at.inputs + c % kShape.slots * kLayout.inputs;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int e = i * kWarp + at.lane;
    to[e / tile.chunk * tile.stride + e % tile.chunk] = held[i];
  }
}

/// Where a weight of a chunk lies. Tiles of 16 columns: so that slices meet in no bank.
template <int l>
__device__ __forceinline__ int place_of(int term, int column) {
  const int place = term * kTile<l>.columns + column;
  if constexpr (kTile<l>.columns != 16) return place;
  return place ^ ((((term / 4) & (kTile<l>.slices - 1)) >> 1 & 1) << 4);
}

/// Chunk c of a warp's weights.
template <int l, int round>
__device__ __forceinline__ void request_weights(const Arguments& args, const Where& at, int c) {
  constexpr Tile tile = kTile<l>;
  constexpr Layer layer = kLayers[l];
  const int column0 = column_of<l, round>(at);
  const int first = at.warp * tile.terms + c * tile.chunk;
  const unsigned to =
      shared_address(at.weights + (kFirstChunk<l, round> + c) % kShape.ahead * kLayout.weights);
  if constexpr (layer.w16 && layer.w_n == 1) {
    constexpr int kQuads = tile.columns / 4;
    constexpr int kTerms = kWarp / kQuads;
    constexpr bool whole =
        tile.terms * kTilesWarps == layer.k && tile.across * tile.columns == layer.n;
    const int term = at.lane / kQuads;
    const int column = column0 + at.lane % kQuads * 4;
    const int left = layer.n - column;
    const int bytes = left >= 4 ? 16 : left > 0 ? 4 * left : 0;
    const float* const from = args.w[l] + (left > 0 ? column : 0);
    if constexpr (whole) {
      // Places repeat with every second one.
      constexpr int kStep = 2 * kTerms;
      constexpr int kCount = tile.chunk / kStep;
      static_assert(tile.chunk % kStep == 0);
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int k = term + odd * kTerms;
        copy_all<kCount, kStep * tile.columns, kStep * layer.w_k>(
            to + place_of<l>(k, at.lane % kQuads * 4) * 4, from + (first + k) * layer.w_k);
      }
    } else {
#pragma unroll
      for (int i = 0; i < tile.chunk / kTerms; ++i) {
        const int k = term + i * kTerms;
        const bool valid = first + k < layer.k;
        copy16(to + place_of<l>(k, at.lane % kQuads * 4) * 4,
               from + (valid ? first + k : 0) * layer.w_k, valid ? bytes : 0);
      }
    }
  } else {
    // Neighbouring lanes take what lies side by side.
    constexpr bool by_term = layer.w_k == 1 && layer.w_n != 1;
#pragma unroll 8
    for (int i = 0; i < tile.chunk * tile.columns / kWarp; ++i) {
      const int e = i * kWarp + at.lane;
      const int k = by_term ? e % tile.chunk : e / tile.columns;
      const int column = by_term ? e / tile.chunk : e % tile.columns;
      const bool valid = first + k < layer.k && column0 + column < layer.n;
      const float* const from =
          args.w[l] + (first + k) * layer.w_k + (column0 + column) * layer.w_n;
      copy4(to + place_of<l>(k, column) * 4, valid ? from : args.w[l], valid);
    }
  }
}

/// Of stage (l, round), where there is one: chunks of weights [begin, end).
template <int l, int round>
__device__ __forceinline__ void request_ahead(const Arguments& args, const Where& at, int begin,
                                              int end) {
  if constexpr (l < kTiled) {
    if (!has_tile<l, round>(at)) return;
    if (end > kEarly<l>) end = kEarly<l>;
#pragma unroll 1
    for (int c = begin; c < end; ++c) request_weights<l, round>(args, at, c);
  }
}

}  // namespace ai::kernels::chain
