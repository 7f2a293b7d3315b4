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

namespace ai::kernels::chain {

struct Arguments {
  const float* x;
  const float* w[kDepth];
  const float* bias[kDepth];
  float* y[kDepth];
  float* z[kDepth];
};

constexpr int kThreads = kShape.warps * kWarp;
constexpr int kRows = kShape.rows;
constexpr RowsLayout kLayout = rows_layout_of(kLayers, kDepth, kShape);
constexpr int kStride = kLayout.stride;
constexpr int kStep = 8;  // terms of one turn of the innermost loop
template <int l>
constexpr Tiling kTiling = tiling_of(kLayers[l], kShape);
template <int l>
constexpr int kBiases = biases_of(kLayers[l], kShape);

/// Where those of layer l lie, among those of all.
template <int l>
constexpr int kBiasesAt = rows_layout_of(kLayers, l, kShape).biases;
template <int l>
constexpr int kWeightsAt = kLayout.weights_at + rows_layout_of(kLayers, l, kShape).weights;

constexpr bool is_cheap(ActKind act) {
  return act == ActKind::None || act == ActKind::ReLU || act == ActKind::LeakyReLU;
}

/// Whether results are computed row by row from sums in the tile, and stored at once: else in
/// registers, and Y is stored behind the next layer.
constexpr bool is_in_rows(int l) {
  return l + 1 == kDepth || kLayers[l].writes_z || !is_cheap(kLayers[l].act);
}
constexpr bool is_behind(int l) {
  return kLayers[l].writes_y && !is_in_rows(l);
}

/// Whether sums begin with the bias.
constexpr bool begins_with_bias(const Layer& layer) {
  return layer.has_bias && layer.bias_m == 0 && layer.alpha == 1.0F;
}

/// Whether the sums of layers `a` and `b` have one code.
constexpr bool is_alike(int a, int b) {
  const Layer& x = kLayers[a];
  const Layer& y = kLayers[b];
  return x.k == y.k && x.n == y.n && x.w_k == y.w_k && x.w_n == y.w_n && x.w16 == y.w16 &&
         biases_of(x, kShape) == biases_of(y, kShape) && begins_with_bias(x) == begins_with_bias(y);
}
/// Whether layers `a` and `b` are stored in the same way behind the next one.
constexpr bool is_stored_alike(int a, int b) {
  if (!is_behind(a) && !is_behind(b)) return true;
  return is_behind(a) == is_behind(b) && kLayers[a].y_m == kLayers[b].y_m &&
         kLayers[a].y16 == kLayers[b].y16;
}
/// Layers [begin, end) share one loop: the instructions of many would have to be fetched.
constexpr int end_of_stretch(int begin) {
  const int stored = begin > 0 ? begin - 1 : 0;
  int end = begin + 1;
  while (end < kDepth && is_alike(begin, end) && is_stored_alike(stored, end - 1)) ++end;
  return end;
}
/// Of these, [begin, end) have one code for their results, too.
constexpr int end_of_equals(int begin, int end) {
  const Layer& x = kLayers[begin];
  int l = begin + 1;
  for (; l < end; ++l) {
    const Layer& y = kLayers[l];
    const bool equal = is_in_rows(begin) == is_in_rows(l) && x.act == y.act && x.slope == y.slope &&
                       x.alpha == y.alpha && x.bias_m == y.bias_m && x.writes_y == y.writes_y &&
                       x.y_m == y.y_m && x.y16 == y.y16 && x.writes_z == y.writes_z &&
                       x.z_m == y.z_m && x.z16 == y.z16 &&
                       (l + 1 == kDepth) == (begin + 1 == kDepth);
    if (!equal) break;
  }
  return l;
}

struct Where {
  int thread;  // of the block
  int lane;
  int row;  // the warp's first
  int row_in_block;
  float* shared;
  float* values;  // the warp's tile: column c of its row r at [r * kStride + c]
};

/// Rows of the warp that there are; may be less than 0.
__device__ inline int rows_of(const Where& at) {
  return kInput.rows - at.row < kRows ? kInput.rows - at.row : kRows;
}

/// Copies `count` (1 or 4) elements to shared memory, those of them that are `there`; the rest
/// become zeros.
template <int count>
__device__ __forceinline__ void fetch(float* to, const float* from, int there) {
  const int bytes = there <= 0 ? 0 : there < count ? 4 * there : 4 * count;
  if constexpr (count == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
  }
}
__device__ inline void end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until all but the last `pending` groups are there, of this thread.
template <int pending>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Element (k, n) to [k * columns + n].
template <int l>
__device__ __forceinline__ void fetch_weights(const Where& at, const float* w, float* to) {
  constexpr Layer layer = kLayers[l];
  constexpr Tiling tiling = kTiling<l>;
  // Four terms of eight columns a warp: a compromise between the two memories.
  constexpr bool by_column = layer.w_n != 1;
  constexpr int kWide = !by_column && layer.w16 ? 4 : 1;
  constexpr int kPieces = tiling.columns / kWide;
  constexpr int kCount = tiling.terms * kPieces;
#pragma unroll 8
  for (int j = 0; j < (kCount + kThreads - 1) / kThreads; ++j) {
    const int i = at.thread + j * kThreads;
    if (kCount % kThreads != 0 && i >= kCount) break;
    const int term = by_column ? i / (4 * kPieces) * 4 + i % 4 : i / kPieces;
    const int column = by_column ? i / 4 % kPieces : i % kPieces * kWide;
    fetch<kWide>(to + term * tiling.columns + column, w + term * layer.w_k + column * layer.w_n,
                 term < layer.k ? layer.n - column : 0);
  }
}

template <int l>
__device__ __forceinline__ void fetch_biases(const Arguments& args, const Where& at) {
  if constexpr (l < kDepth) {
    constexpr Layer layer = kLayers[l];
    constexpr bool by_row = layer.bias_m != 0;
    const int first = by_row ? at.row - at.row_in_block : 0;
    const int there = by_row ? kInput.rows - first : layer.n;
#pragma unroll
    for (int j = 0; j < (kBiases<l> + kThreads - 1) / kThreads; ++j) {
      const int i = at.thread + j * kThreads;
      if (i >= kBiases<l>) break;
      fetch<1>(at.shared + kBiasesAt<l> + i,
               args.bias[l] + (first + i) * (by_row ? layer.bias_m : layer.bias_n), there - i);
    }
    fetch_biases<l + 1>(args, at);
  }
}

/// The warp's rows. Neighbouring lanes take neighbouring elements.
__device__ __forceinline__ void fetch_input(const Arguments& args, const Where& at) {
  constexpr bool by_column = kInput.x_k != 1;
  constexpr int kWide = !by_column && kInput.x16 ? 4 : 1;
  constexpr int kPieces = kTiling<0>.terms / kWide;
#pragma unroll 8
  for (int j = 0; j < kRows * kPieces / kWarp; ++j) {
    const int i = at.lane + j * kWarp;
    const int row = by_column ? i % kRows : i / kPieces;
    const int term = by_column ? i / kRows : i % kPieces * kWide;
    fetch<kWide>(at.values + row * kStride + term,
                 args.x + (at.row + row) * kInput.x_m + term * kInput.x_k,
                 row < rows_of(at) ? kLayers[0].k - term : 0);
  }
}

/// Where the weights of layer l lie, which is in the stretch that begins with layer `begin`.
template <int begin>
__device__ __forceinline__ float* weights_at(const Where& at, int l) {
  constexpr int kWeights = kTiling<begin>.terms * kTiling<begin>.columns;
  if constexpr (kShape.streamed) {
    return at.shared + kLayout.weights_at + l % 2 * kLayout.weights;
  } else {
    return at.shared + kWeightsAt<begin> + (l - begin) * kWeights;
  }
}

/// The weights of layers 1 and on, those of layer 1 alone if streamed.
template <int begin>
__device__ __forceinline__ void fetch_further(const Arguments& args, const Where& at) {
  if constexpr (begin < (kShape.streamed && kDepth > 2 ? 2 : kDepth)) {
    constexpr int end = end_of_stretch(begin);
#pragma unroll 1
    for (int l = begin > 0 ? begin : 1; l < (kShape.streamed && end > 2 ? 2 : end); ++l) {
      fetch_weights<begin>(at, args.w[l], weights_at<begin>(at, l));
    }
    fetch_further<end>(args, at);
  }
}

/// Until the weights of layer l are there; streamed, those of the layer after it are requested,
/// to where those of the layer before it were.
template <int begin>
__device__ __forceinline__ void await_weights(const Arguments& args, const Where& at, int l) {
  if (kShape.streamed ? l > 0 : l == 1) {
    wait_for_groups<0>();
    __syncthreads();
    if constexpr (kShape.streamed) {
      constexpr int end = end_of_stretch(begin);
      if (l + 1 < end) {
        fetch_weights<begin>(at, args.w[l + 1], weights_at<begin>(at, l + 1));
      } else if constexpr (end < kDepth) {
        fetch_weights<end>(at, args.w[end], weights_at<end>(at, end));
      }
      end_group();
    }
  }
}

__device__ inline float4 read_four(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

/// The warp's way through a tile of so many columns, row by row, `wide` columns a lane.
template <int columns, int wide>
struct Walk {
  static constexpr int kPieces = columns / wide;
  static constexpr int kAtOnce = kPieces < kWarp ? kWarp / kPieces : 1;  // rows
  static constexpr int kTurns = (kPieces + kWarp - 1) / kWarp;           // that a row takes
  static constexpr int kCount = kRows / kAtOnce * kTurns;
  // What is added in turn i, a constant, to the lane's own row and column.
  static constexpr int row(int i) { return i / kTurns * kAtOnce; }
  static constexpr int column(int i) { return i % kTurns * kWarp * wide; }
  static __device__ int own_row(int lane) { return kPieces < kWarp ? lane / kPieces : 0; }
  static __device__ int own_column(int lane) {
    return (kPieces < kWarp ? lane % kPieces : lane) * wide;
  }
  /// Rows from the lane's own one on, of `rows`; 0 for lanes without work.
  static __device__ int rows_left(int lane, int rows) {
    return kAtOnce * kPieces < kWarp && lane >= kAtOnce * kPieces ? 0 : rows - own_row(lane);
  }
};

template <int wide>
__device__ __forceinline__ void read(float (&v)[wide], const float* from) {
  if constexpr (wide == 4) {
    const float4 four = read_four(from);
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
  } else {
    v[0] = *from;
  }
}

/// The first `count` of them.
template <int wide>
__device__ __forceinline__ void write(float* to, const float (&v)[wide], int count) {
  if (count >= wide) {
    if constexpr (wide == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
      *to = v[0];
    }
  } else {
#pragma unroll
    for (int i = 0; i + 1 < wide; ++i) {
      if (i < count) to[i] = v[i];
    }
  }
}

/// Columns of layer l from `column` on, where there may be fewer than `wide`.
template <int l, int wide>
__device__ __forceinline__ int columns_left(int column) {
  if constexpr (kLayers[l].n == kTiling<l>.columns) return wide;
  if constexpr (kLayers[l].n % wide == 0) return column < kLayers[l].n ? wide : 0;
  return kLayers[l].n - column;
}

/// Of the layer before: stored while the next one is summed up.
struct Behind {
  const float* values;  // the lane's own place
  float* y;
  int column;
  int rows;  // that are left, from the lane's own one
};

/// Stores Y of layer l in `turns` turns of the loop.
template <int l, int turns>
struct Storing {
  static constexpr int kWide = kLayers[l].y16 ? 4 : 1;
  using Way = Walk<kTiling<l>.columns, kWide>;
  static constexpr int kEach = round_up((Way::kCount + turns - 1) / turns, Way::kTurns);
  static constexpr bool kExact = kEach * turns == Way::kCount;
  float v[kEach][kWide];

  static __device__ Behind begin(const Where& at, float* y) {
    const int row = Way::own_row(at.lane);
    const int column = Way::own_column(at.lane);
    return {at.values + row * kStride + column, y + (at.row + row) * kLayers[l].y_m + column,
            column, y == nullptr ? 0 : Way::rows_left(at.lane, rows_of(at))};
  }
  __device__ __forceinline__ void request(const Behind& out) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (kExact || Way::row(i) < out.rows) {
        read(v[i], out.values + Way::row(i) * kStride + Way::column(i));
      }
    }
  }
  __device__ __forceinline__ void store(Behind& out) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (Way::row(i) < out.rows) {
        write(out.y + Way::row(i) * kLayers[l].y_m + Way::column(i), v[i],
              columns_left<l, kWide>(out.column + Way::column(i)));
      }
    }
    out.values += Way::row(kEach) * kStride;
    out.y += Way::row(kEach) * kLayers[l].y_m;
    out.rows -= Way::row(kEach);
  }
};
struct NothingToStore {
  static __device__ Behind begin(const Where&, float*) { return {}; }
  __device__ void request(const Behind&) {}
  __device__ void store(Behind&) {}
};
template <int l, int turns, bool is_any>
struct StoringIf {
  using Type = NothingToStore;
};
template <int l, int turns>
struct StoringIf<l, turns, true> {
  using Type = Storing<l, turns>;
};

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

/// Four terms of the lane's rows, and one of its columns.
template <int l>
__device__ __forceinline__ void read_values(float (&to)[kTiling<l>.rows][4], const float* from) {
#pragma unroll
  for (int i = 0; i < kTiling<l>.rows; ++i) read(to[i], from + row_of<l>(i) * kStride);
}
template <int l>
__device__ __forceinline__ void read_weights(float (&to)[kTiling<l>.vectors][4],
                                             const float* from) {
#pragma unroll
  for (int v = 0; v < kTiling<l>.vectors; ++v) {
    read(to[v], from + v * 4 * kTiling<l>.column_groups);
  }
}

/// What is read ahead: weights by a term, values by four.
template <int l>
struct Ahead {
  float x[2][kTiling<l>.rows][4];
  float w[2][kTiling<l>.vectors][4];
};

/// Adds up kStep terms; `next` and `w_next` are where those after them are.
template <int l, class Store>
__device__ __forceinline__ void add_step(Ahead<l>& ahead, const float* from, const float* w_from,
                                         const float* next, const float* w_next, Behind& out,
                                         Sums<l>& sums) {
  constexpr Tiling tiling = kTiling<l>;
  Store storing;
  storing.request(out);
#pragma unroll
  for (int c = 0; c < kStep; ++c) {
    read_weights<l>(ahead.w[(c + 1) % 2],
                    c + 1 < kStep ? w_from + (c + 1) * tiling.columns : w_next);
    if (c == 0) read_values<l>(ahead.x[1], from + 4);
    if (c == 4) storing.store(out);
    if (c == 4) read_values<l>(ahead.x[0], next);
#pragma unroll
    for (int v = 0; v < tiling.vectors; ++v) {
#pragma unroll
      for (int i = 0; i < tiling.rows; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][v][j] = fmaf(ahead.x[c / 4][i][c % 4], ahead.w[c % 2][v][j], sums[i][v][j]);
        }
      }
    }
  }
}

template <int l, class Store>
__device__ __forceinline__ void add_up(const Where& at, const float* weights, Behind out,
                                       Sums<l>& sums) {
  constexpr int kTurns = kTiling<l>.terms / kStep;
  const float* const first = at.values + first_row<l>(at.lane) * kStride;
  const float* const w_first = weights + first_column<l>(at.lane);
  Ahead<l> ahead;
  read_values<l>(ahead.x[0], first);
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
  const int thread = static_cast<int>(threadIdx.x);
  const int row_in_block = thread / kWarp * kRows;
  const Where at{thread,
                 thread % kWarp,
                 static_cast<int>(blockIdx.x) * kRows * kShape.warps + row_in_block,
                 row_in_block,
                 shared,
                 shared + kLayout.values_at + row_in_block * kStride};
  fetch_input(args, at);
  fetch_weights<0>(at, args.w[0], weights_at<0>(at, 0));
  fetch_biases<0>(args, at);
  end_group();
  fetch_further<0>(args, at);
  end_group();
  wait_for_groups<1>();
  __syncthreads();
  compute<0>(args, at);
}

}  // namespace ai::kernels::chain
