// The chain kernel for many rows; compiled at run time behind a specification as chain_slab.cuh is:
// kInput, kShape (a RowsShape), kDepth and kLayers[kDepth].
//
// Blocks share the rows. A warp takes its rows through all layers in a tile of shared memory that
// no other warp touches, so that warps wait for each other only until weights are there. The sums
// of a layer are outer products in registers; Y of a layer is stored while the next one is summed
// up, a few pieces at a time, since many stores at once hold up the reads of shared memory.
//
// A read of 16 bytes a lane takes half the time where lanes n and n ^ 1, or n and n ^ 2, agree all
// over the warp: bit 0 of the lane chooses columns only, bit 1 rows only.

#include "kernels/chain_rows_fetch.cuh"
#include "kernels/chain_rows_store.cuh"

namespace ai::kernels::chain {

/// A lane's row i, from its first one on: rows lie such that neither reads nor writes of a warp
/// meet in a bank.
template <int l>
constexpr int row_of(int i) {
  if (kTiling<l>.row_groups == 4 && kTiling<l>.rows >= 4) return i % 4 + i / 4 * 16;
  return i * kTiling<l>.row_groups;
}
template <int l>
__device__ inline int first_row(int lane) {
  const int group = (lane >> 1 & 1) | lane / (2 * kTiling<l>.column_groups) << 1;
  return kTiling<l>.row_groups == 4 && kTiling<l>.rows >= 4 ? 4 * group : group;
}
template <int l>
__device__ inline int first_column(int lane) {
  return 4 * ((lane & 1) | (lane >> 2 & (kTiling<l>.column_groups / 2 - 1)) << 1);
}

template <int l>
using Sums = float[kTiling<l>.rows][kTiling<l>.vectors][4];

template <int l>
__device__ __forceinline__ void begin_sums(const Where& at, const float* bias, Sums<l>& sums) {
  constexpr Tiling tiling = kTiling<l>;
#pragma unroll
  for (int v = 0; v < tiling.vectors; ++v) {
    float4 four = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if constexpr (begins_with_bias(kLayers[l])) {
      four = read_four(bias + first_column<l>(at.lane) + v * 4 * tiling.column_groups);
    }
#pragma unroll
    for (int i = 0; i < tiling.rows; ++i) {
      sums[i][v][0] = four.x, sums[i][v][1] = four.y, sums[i][v][2] = four.z;
      sums[i][v][3] = four.w;
    }
  }
}

/// A term of the lane's columns.
template <int l>
__device__ __forceinline__ void read_weights(float (&to)[kTiling<l>.vectors][4],
                                             const float* from) {
#pragma unroll
  for (int v = 0; v < kTiling<l>.vectors; ++v) {
    read(to[v], from + v * 4 * kTiling<l>.column_groups);
  }
}

/// What is read ahead: weights by a term, values by four. Rows are a term behind one another, in up
/// to four groups, and begin with the last terms: so reads are spread evenly over the sums.
template <int l>
struct Ahead {
  float x[2][kTiling<l>.rows][4];
  float w[kStep][kTiling<l>.vectors][4];
};
template <int l>
constexpr int group_of(int i) {
  return i * 4 / kTiling<l>.rows;
}
/// Four terms of the lane's rows of one group.
template <int l, int group>
__device__ __forceinline__ void read_values(float (&to)[kTiling<l>.rows][4], const float* from) {
#pragma unroll
  for (int i = 0; i < kTiling<l>.rows; ++i) {
    if (group_of<l>(i) == group) read(to[i], from + row_of<l>(i) * kStride);
  }
}

template <int l, class Store, int c = 0>
__device__ __forceinline__ void add_terms(Ahead<l>& ahead, const float* from, const float* w_from,
                                          const float* next, const float* w_next, Behind& out,
                                          Store& storing, Sums<l>& sums) {
  if constexpr (c < kStep) {
    constexpr Tiling tiling = kTiling<l>;
    constexpr int kGroup = (c + 1) % 4;
    constexpr int kQuad = (c + 1 - kGroup) / 4;
    read_weights<l>(ahead.w[(c + 1) % kStep],
                    c + 1 < kStep ? w_from + (c + 1) * tiling.columns : w_next);
    read_values<l, kGroup>(ahead.x[kQuad % 2], kQuad < 2 ? from + 4 * kQuad : next);
    if constexpr (c == 1) storing.request(out);
    if constexpr (c == 4) storing.store(out);
#pragma unroll
    for (int q = 0; q < tiling.rows; ++q) {
      const int i = (q + tiling.rows * kGroup / 4) % tiling.rows;  // what was read last comes last
      const int term = c + kStep - group_of<l>(i);
#pragma unroll
      for (int v = 0; v < tiling.vectors; ++v) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][v][j] =
              fmaf(ahead.x[term / 4 % 2][i][term % 4], ahead.w[term % kStep][v][j], sums[i][v][j]);
        }
      }
    }
    add_terms<l, Store, c + 1>(ahead, from, w_from, next, w_next, out, storing, sums);
  }
}

/// Adds up kStep terms; `next` and `w_next` are where those after them are.
template <int l, class Store>
__device__ __forceinline__ void add_step(Ahead<l>& ahead, const float* from, const float* w_from,
                                         const float* next, const float* w_next, Behind& out,
                                         Sums<l>& sums) {
  Store storing;
  add_terms<l, Store>(ahead, from, w_from, next, w_next, out, storing, sums);
}

template <int l, class Store>
__device__ __forceinline__ void add_up(const Where& at, const float* weights, Behind out,
                                       Sums<l>& sums) {
  constexpr int kTurns = kTiling<l>.terms / kStep;
  const float* const first = at.values + first_row<l>(at.lane) * kStride;
  const float* const w_first = weights + first_column<l>(at.lane);
  Ahead<l> ahead;
  const float* const last = first + kTiling<l>.terms - 4;
  read_values<l, 1>(ahead.x[1], last);
  read_values<l, 2>(ahead.x[1], last);
  read_values<l, 3>(ahead.x[1], last);
  read_values<l, 0>(ahead.x[0], first);
#pragma unroll
  for (int behind = 3; behind > 0; --behind) {
    read_weights<l>(ahead.w[kStep - behind],
                    w_first + (kTiling<l>.terms - behind) * kTiling<l>.columns);
  }
  read_weights<l>(ahead.w[0], w_first);
  // What is read ahead at the end is not used.
  if constexpr (kTurns == 1) {
    add_step<l, Store>(ahead, first, w_first, first, w_first, out, sums);
  } else {
    const float* from = first;
    const float* w_from = w_first;
#pragma unroll 1
    for (int turn = 1; turn <= kTurns; ++turn) {
      const float* const next = turn == kTurns ? first : from + kStep;
      const float* const w_next = turn == kTurns ? w_first : w_from + kStep * kTiling<l>.columns;
      add_step<l, Store>(ahead, from, w_from, next, w_next, out, sums);
      from = next;
      w_from = w_next;
    }
  }
}

/// Z of all rows are in the tile: Y takes their place, and both are stored as asked.
template <int e>
__device__ __forceinline__ void finish_rows(const Arguments& args, const Where& at, int l) {
  constexpr Layer layer = kLayers[e];
  constexpr bool last = e + 1 == kDepth;
  constexpr int kWide = (!layer.writes_y || layer.y16) && (!layer.writes_z || layer.z16) ? 4 : 1;
  using Way = Walk<kTiling<e>.columns, kWide>;
  const int row = Way::own_row(at.lane);
  const int column = Way::own_column(at.lane);
  const int rows = Way::rows_left(at.lane, kRows);
  const int rows_there = rows_of(at) - row;
  float* const values = at.values + row * kStride + column;
  float* const y = args.y[l] + (at.row + row) * layer.y_m + column;
  float* const z = args.z[l] + (at.row + row) * layer.z_m + column;
  constexpr int kUnroll = (is_cheap(layer.act) ? 32 : 8) / kWide;
#pragma unroll kUnroll
  for (int i = 0; i < Way::kCount; ++i) {
    const int left = columns_left<e, kWide>(column + Way::column(i));
    float v[kWide];
    if (Way::row(i) < rows) {
      float* const here = values + Way::row(i) * kStride + Way::column(i);
      read(v, here);
      if constexpr (layer.writes_z) {
        if (Way::row(i) < rows_there) write(z + Way::row(i) * layer.z_m + Way::column(i), v, left);
      }
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        v[j] = j < left ? activation::apply<layer.act>(v[j], layer.slope) : 0.0F;
      }
      if constexpr (!last) write(here, v, kWide);
      if constexpr (layer.writes_y) {
        if (Way::row(i) < rows_there) write(y + Way::row(i) * layer.y_m + Way::column(i), v, left);
      }
    }
  }
}

/// The results of layer l, which are those of layer e but for their place.
template <int e>
__device__ __forceinline__ void finish(const Arguments& args, const Where& at, int l,
                                       const float* bias, const Sums<e>& sums) {
  constexpr Layer layer = kLayers[e];
  constexpr Tiling tiling = kTiling<e>;
  const int column = first_column<e>(at.lane);
  const int row = first_row<e>(at.lane);
  __syncwarp();  // all have read the tile
#pragma unroll
  for (int v = 0; v < tiling.vectors; ++v) {
    const int shift = v * 4 * tiling.column_groups;
    float b[4] = {};
    if constexpr (layer.has_bias && layer.bias_m == 0) read(b, bias + column + shift);
    const int left = columns_left<e, 4>(column + shift);
#pragma unroll
    for (int i = 0; i < tiling.rows; ++i) {
      float f[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        f[j] = sums[i][v][j];
        if constexpr (!begins_with_bias(layer)) {
          if constexpr (layer.has_bias && layer.bias_m != 0) {
            b[j] = bias[at.row_in_block + row + row_of<e>(i)];
          }
          f[j] = fmaf(layer.alpha, f[j], b[j]);
        }
        if constexpr (!is_in_rows(e)) {
          f[j] = j < left ? activation::apply<layer.act>(f[j], layer.slope) : 0.0F;
        }
      }
      write(at.values + (row + row_of<e>(i)) * kStride + column + shift, f, 4);
    }
  }
  __syncwarp();
  if constexpr (is_in_rows(e)) {
    finish_rows<e>(args, at, l);
    __syncwarp();
  }
}

/// The same where layer l is one of [begin, end).
template <int begin, int end>
__device__ __forceinline__ void finish_one_of(const Arguments& args, const Where& at, int l,
                                              const float* bias, const Sums<begin>& sums) {
  constexpr int equal = end_of_equals(begin, end);
  if (equal == end || l < equal) {
    finish<begin>(args, at, l, bias, sums);
  } else if constexpr (equal < end) {
    finish_one_of<equal, end>(args, at, l, bias, sums);
  }
}

/// Layers `begin` and on.
template <int begin>
__device__ __forceinline__ void compute(const Arguments& args, const Where& at) {
  if constexpr (begin < kDepth) {
    constexpr int end = end_of_stretch(begin);
    constexpr int kStored = begin > 0 ? begin - 1 : 0;  // or one that is stored alike
    constexpr bool is_any = is_behind(kStored) && (begin > 0 || end > 1);
    using Store = typename StoringIf<kStored, kTiling<begin>.terms / kStep, is_any>::Type;
#pragma unroll 1
    for (int l = begin; l < end; ++l) {
      await_weights<begin>(args, at, l);
      const float* const bias = at.shared + kBiasesAt<begin> + (l - begin) * kBiases<begin>;
      Sums<begin> sums;
      begin_sums<begin>(at, bias, sums);
      const Behind out = Store::begin(at, l > 0 ? args.y[l - 1] : nullptr);
      add_up<begin, Store>(at, weights_at<begin>(at, l), out, sums);
      finish_one_of<begin, end>(args, at, l, bias, sums);
    }
    compute<end>(args, at);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) float shared[];
  compute<0>(args, start(args, shared));
}

}  // namespace ai::kernels::chain
