// How warps of the tiles kernel fetch, and what of their inputs; for chain_tiles.cuh and behind the
// same specification.
#pragma once

#include "kernels/chain_copy.cuh"

namespace ai::kernels::chain {

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

/// `count` copies, evenly spaced, of `bytes` each.
template <int width, int count, int to_step, int from_step, int i = 0>
__device__ __forceinline__ void copy_all(unsigned to, const float* from, int bytes) {
  if constexpr (i < count) {
    copy<width, i * to_step, i * from_step>(to, from, bytes);
    copy_all<width, count, to_step, from_step, i + 1>(to, from, bytes);
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

/// Where layer l leaves its results for the next one, in the set of launch `launch`.
template <int l>
__device__ __forceinline__ float* passed_by(const Arguments& args, unsigned launch) {
  constexpr long long kFirst = set_at(kInput, kLayers, kDepth, kShape, 0);
  constexpr long long kSet = set_at(kInput, kLayers, kDepth, kShape, 1) - kFirst;
  float* const all = reinterpret_cast<float*>(args.state);
  return all + (kFirst + launch % 2 * kSet + passed(kInput, kLayers, l));
}

/// What layer l reads, row m at [m * kReads<l>].
template <int l>
constexpr int kReads = l == 0 ? kInput.x_m : pass_stride(kLayers[l == 0 ? 0 : l - 1]);

template <int l>
__device__ __forceinline__ const float* reads(const Arguments& args, const Where& at) {
  if constexpr (l == 0) {
    return args.x;
  } else {
    return passed_by<l - 1>(args, at.launches);
  }
}

template <int l>
constexpr bool kReadsFours = l > 0 || (kInput.x16 && kInput.x_k == 1);

/// What a warp takes of its inputs: a part of chunk c, or all of it. Where that is a matter of
/// copies of 16 bytes alone, addresses are worked out once, and kept.
template <int l, int round>
struct Inputs {
  static constexpr Tile tile = kTile<l>;
  static constexpr int kTerms = kLayers[l].k;
  // Offsets in bytes are constants of 32 bits then.
  static constexpr bool kNear = 4LL * tile.rows * kReads<l> <= 0x7FFFFFFF;
  static constexpr bool kWhole =
      kReadsFours<l> && kWholeGroups && tile.terms * kTilesWarps == kTerms && kNear;
  static constexpr int kQuads = tile.chunk / 4;
  static constexpr int kRows = kWarp / kQuads;
  static_assert(tile.rows % kRows == 0);

  const float* all;
  const float* from;
  unsigned to;

  __device__ __forceinline__ Inputs(const Arguments& args, const Where& at)
      : all(reads<l>(args, at)), from(all), to(shared_address(at.inputs)) {
    if constexpr (kWhole) {
      const int row = at.lane / kQuads;
      const int term = at.lane % kQuads * 4;
      from += (row_of<l, round>(at) + row) * kReads<l> + at.warp * tile.terms + term;
      to += (row * tile.stride + term) * 4;
      asm("" : "+l"(from), "+r"(to));
    }
  }

  template <int parts = 1>
  __device__ __forceinline__ void take(const Where& at, int c, int part = 0) const {
    if constexpr (kWhole && parts == 1) {
      copy_all<4, tile.rows / kRows, kRows * tile.stride, kRows * kReads<l>>(
          to + slot_of(c), from + c * tile.chunk, 16);
    } else {
      take_slowly<tile.chunk / parts>(at, c, part);
    }
  }

  /// Whether what the lane has taken of chunk c was there: all of it that is not is 0.
  __device__ __forceinline__ bool is_there(const Where& at, int c) const {
    static_assert(l > 0);
    const int own = at.lane % kQuads * 4;
    if (tile.terms * kTilesWarps != kTerms && at.warp * tile.terms + c * tile.chunk + own >= kTerms)
      return true;
    const unsigned mine =
        shared_address(at.inputs) + slot_of(c) + (at.lane / kQuads * tile.stride + own) * 4;
    unsigned least = ~0U;
#pragma unroll
    for (int i = 0; i < tile.rows / kRows; ++i) {
      float v[4];
      load_shared4(mine + i * (kRows * tile.stride * 4), v);
      least = min(min(least, min(__float_as_uint(v[0]), __float_as_uint(v[1]))),
                  min(__float_as_uint(v[2]), __float_as_uint(v[3])));
    }
    return least != 0;
  }

 private:
  static __device__ __forceinline__ int slot_of(int c) {
    return c % kShape.slots * (kLayout.inputs * 4);
  }

  /// `each` terms of a chunk.
  template <int each>
  __device__ __forceinline__ void take_slowly(const Where& at, int c, int part) const {
    constexpr int kWidth = kReadsFours<l> ? 4 : 1;
    constexpr int kStep = kReadsFours<l> ? 1 : kInput.x_k;
    constexpr int kLanes = each / kWidth;
    constexpr int kPass = kWarp / kLanes;  // rows
    constexpr int kPasses = tile.rows / kPass;
    static_assert(kWarp % kLanes == 0 && tile.rows % kPass == 0);
    const int row = at.lane / kLanes;
    const int own = part * each + at.lane % kLanes * kWidth;
    const int term = at.warp * tile.terms + c * tile.chunk + own;
    // What another layer passes on is padded.
    const int bytes = l > 0 ? (term < kTerms ? 16 : 0) : bytes_of<kWidth>(kTerms - term);
    const float* begin = all + (bytes > 0 ? term * kStep : 0);
    unsigned slot = shared_address(at.inputs) + slot_of(c) + (row * tile.stride + own) * 4;
    if constexpr (kWholeGroups && kNear) {
      begin += (row_of<l, round>(at) + row) * kReads<l>;
      asm("" : "+l"(begin), "+r"(slot));
      copy_all<kWidth, kPasses, kPass * tile.stride, kPass * kReads<l>>(slot, begin, bytes);
    } else {
#pragma unroll 4
      for (int i = 0; i < kPasses; ++i) {
        copy<kWidth>(slot + i * (kPass * tile.stride * 4),
                     begin + clamped(row_of<l, round>(at) + row + i * kPass) * kReads<l>, bytes);
      }
    }
  }
};

}  // namespace ai::kernels::chain
