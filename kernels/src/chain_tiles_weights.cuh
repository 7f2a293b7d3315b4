// What warps of the tiles kernel fetch of weights, of this layer and the next; for chain_tiles.cuh
// and behind the same specification.
#pragma once

#include "kernels/chain_tiles_fetch.cuh"

namespace ai::kernels::chain {

/// Where a weight of a chunk lies. Tiles of 16 columns: so that slices meet in no bank.
template <int l>
__device__ __forceinline__ int place_of(int term, int column) {
  const int place = term * kTile<l>.columns + column;
  if constexpr (kTile<l>.columns != 16) return place;
  return place ^ ((((term / 4) & (kTile<l>.slices - 1)) >> 1 & 1) << 4);
}

/// What a warp takes of its weights: a part of chunk c, or all of it, as Inputs do.
template <int l, int round>
struct Weights {
  static constexpr Tile tile = kTile<l>;
  static constexpr Layer layer = kLayers[l];
  static constexpr bool kFours = layer.w16 && layer.w_n == 1;
  // Offsets in bytes are constants of 32 bits then.
  static constexpr bool kNear = 4LL * tile.chunk * layer.w_k <= 0x7FFFFFFF;
  static constexpr bool kWhole = kFours && kNear && tile.terms * kTilesWarps == layer.k &&
                                 tile.across * tile.columns == layer.n;
  static constexpr int kQuads = tile.columns / 4;
  static constexpr int kTerms = kWarp / kQuads;

  const float* all;
  const float* from;
  unsigned to;

  __device__ __forceinline__ Weights(const Arguments& args, const Where& at)
      : all(args.w[l]), from(all), to(shared_address(at.weights)) {
    if constexpr (kWhole) {
      from += (at.warp * tile.terms + at.lane / kQuads) * layer.w_k + column_of<l, round>(at) +
              at.lane % kQuads * 4;
      asm("" : "+l"(from));
    }
  }

  template <int parts = 1>
  __device__ __forceinline__ void take(const Where& at, int c, int part = 0) const {
    const unsigned slot = to + (kFirstChunk<l, round> + c) % kShape.ahead * (kLayout.weights * 4);
    if constexpr (kWhole && parts == 1) {
      constexpr int kStep = 2 * kTerms;  // places repeat with every second one
      static_assert(tile.chunk % kStep == 0);
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int term = at.lane / kQuads + odd * kTerms;
        copy_all<4, tile.chunk / kStep, kStep * tile.columns, kStep * layer.w_k>(
            slot + place_of<l>(term, at.lane % kQuads * 4) * 4,
            from + (c * tile.chunk + odd * kTerms) * layer.w_k, 16);
      }
    } else {
      take_slowly<tile.chunk / parts>(at, slot, c * tile.chunk, part * (tile.chunk / parts));
    }
  }

 private:
  /// `each` terms of a chunk, the first of which is `begin`, from `offset` on.
  template <int each>
  __device__ __forceinline__ void take_slowly(const Where& at, unsigned slot, int begin,
                                              int offset) const {
    const int first = at.warp * tile.terms + begin;
    const int column0 = column_of<l, round>(at);
    if constexpr (kFours) {
      static_assert(each % kTerms == 0);
      const int column = column0 + at.lane % kQuads * 4;
      const int bytes = bytes_of<4>(layer.n - column);
      const int inside = bytes > 0 ? column : 0;
      constexpr int kPasses = each / kTerms;
      if constexpr (kNear && each % (2 * kTerms) == 0) {  // places repeat, as above
        if (first + offset + each <= layer.k) {
          const float* source = all + (first + offset + at.lane / kQuads) * layer.w_k + inside;
          asm("" : "+l"(source));
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            const int term = offset + at.lane / kQuads + odd * kTerms;
            copy_all<4, kPasses / 2, 2 * kTerms * tile.columns, 2 * kTerms * layer.w_k>(
                slot + place_of<l>(term, at.lane % kQuads * 4) * 4,
                source + odd * (kTerms * layer.w_k), bytes);
          }
          return;
        }
      }
#pragma unroll 1
      for (int i = 0; i < kPasses; ++i) {
        const int term = offset + i * kTerms + at.lane / kQuads;
        const bool valid = first + term < layer.k;
        copy<4>(slot + place_of<l>(term, at.lane % kQuads * 4) * 4,
                all + (valid ? (first + term) * layer.w_k + inside : 0), valid ? bytes : 0);
      }
    } else {
      // Neighbouring lanes take what lies side by side.
      constexpr bool by_term = layer.w_k == 1 && layer.w_n != 1;
#pragma unroll 8
      for (int i = 0; i < each * tile.columns / kWarp; ++i) {
        const int e = i * kWarp + at.lane;
        const int term = offset + (by_term ? e % each : e / tile.columns);
        const int own = by_term ? e / each : e % tile.columns;
        const bool valid = first + term < layer.k && column0 + own < layer.n;
        const int place = (first + term) * layer.w_k + (column0 + own) * layer.w_n;
        copy<1>(slot + place_of<l>(term, own) * 4, all + (valid ? place : 0), valid ? 4 : 0);
      }
    }
  }
};

}  // namespace ai::kernels::chain
