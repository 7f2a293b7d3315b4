// How chain_rows.cuh goes through a warp's tile row by row, and stores it behind the next layer.
#pragma once

namespace ai::kernels::chain {

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

}  // namespace ai::kernels::chain
