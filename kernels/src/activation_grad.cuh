#pragma once

#include "activation_grad.hpp"
#include "bias_grad.cuh"

namespace ai::kernels {

/// Four columns of one lane: neighbours where loads are vectors, else `lanes` apart, so that a warp
/// always touches whole runs of memory.
template <bool kVectors>
struct LaneColumns {
  int lanes;
  int lane;

  __device__ int first() const { return kVectors ? kLaneColumns * lane : lane; }
  __device__ int step() const { return kVectors ? 1 : lanes; }

  /// Bit j: whether column `begin + first() + j * step()` lies before `end`.
  __device__ unsigned valid(std::int64_t begin, std::int64_t end) const {
    const std::int64_t left = end - begin - first();
    if constexpr (kVectors) return left > 0 ? 0xFU : 0U;
    unsigned mask = 0;
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) mask |= (left > j * lanes ? 1U : 0U) << j;
    return mask;
  }

  /// From `row`, which points at this lane's first column. Zeros where not valid.
  __device__ void load(const float* row, unsigned mask, float (&values)[kLaneColumns]) const {
    if constexpr (kVectors) {
      const float4 v = mask != 0 ? *reinterpret_cast<const float4*>(row) : float4{};
      values[0] = v.x;
      values[1] = v.y;
      values[2] = v.z;
      values[3] = v.w;
    } else {
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) {
        values[j] = (mask >> j & 1U) != 0 ? row[j * lanes] : 0.0F;
      }
    }
  }

  __device__ void store(float* row, unsigned mask, const float (&values)[kLaneColumns]) const {
    if constexpr (kVectors) {
      if (mask != 0) {
        *reinterpret_cast<float4*>(row) = {values[0], values[1], values[2], values[3]};
      }
    } else {
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) {
        if ((mask >> j & 1U) != 0) row[j * lanes] = values[j];
      }
    }
  }
};

/// gZ of one lane's columns at (row, column), stored where asked. Columns that are not valid give
/// 0.
template <ActKind kAct, bool kVectors, bool kWithC>
__device__ inline void finish(const GradientArgs& args, const LaneColumns<kVectors>& columns,
                              std::int64_t row, std::int64_t column, unsigned mask,
                              float (&gy)[kLaneColumns], const float (&z)[kLaneColumns]) {
  if constexpr (kAct != ActKind::None) {
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      gy[j] *= activation::derivative<kAct>(z[j], args.slope);
    }
  }
  if (args.gz.data != nullptr) columns.store(args.gz.data + row * args.gz.ld + column, mask, gy);
  if constexpr (kWithC) {
    float* const target = args.gc.data + row * args.gc.ld + column;
    float gc[kLaneColumns] = {};
    if (args.accumulate_c) columns.load(target, mask, gc);
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      if (args.beta != 0.0F) gc[j] = fmaf(args.beta, gy[j], gc[j]);
    }
    columns.store(target, mask, gc);
  }
}

template <ActKind kAct>
inline constexpr bool kCheap =
    kAct == ActKind::None || kAct == ActKind::ReLU || kAct == ActKind::LeakyReLU;

/// Rows (PerM: pieces of a row) that a thread has in flight. Fewer where act' is long code that is
/// repeated for each, or where each is four loads with an address of its own. 8 gain nothing at
/// [16384,1024] and cost 0.4 us at [64,256], where fetching the code is what takes time.
template <ActKind kAct, bool kVectors>
inline constexpr int kInFlight = kCheap<kAct>&& kVectors ? 4 : 2;

/// None, Scalar, PerN.
template <ActKind kAct, bool kVectors, bool kWithC>
__global__ __launch_bounds__(kGradientThreads) void gradient_down(const GradientArgs args) {
  constexpr int kRows = kInFlight<kAct, kVectors>;
  constexpr int kCells = kGradientThreads * kLaneColumns;
  __shared__ double cells[kCells];
  const int lanes = 1 << args.grid.lanes_log2;
  const LaneColumns<kVectors> columns{lanes, static_cast<int>(threadIdx.x) & (lanes - 1)};
  const int group = static_cast<int>(threadIdx.x) >> args.grid.lanes_log2;
  const int groups = kGradientThreads >> args.grid.lanes_log2;
  const int width = kLaneColumns * lanes;
  const std::int64_t n = args.gy.cols;
  const std::int64_t rows = args.grid.rows;
  const std::int64_t longer = args.grid.longer;
  const std::int64_t work = args.grid.tiles * args.grid.parts;

  for (std::int64_t item = blockIdx.x; item < work; item += gridDim.x) {
    const std::int64_t part = args.grid.parts == 1 ? 0 : item / args.grid.tiles;
    const std::int64_t begin = (item - part * args.grid.tiles) * width;
    const std::int64_t column = begin + columns.first();
    const unsigned mask = columns.valid(begin, n);
    const std::int64_t row_begin = part * rows + (part < longer ? part : longer);
    const std::int64_t row_end = row_begin + rows + (part < longer ? 1 : 0);

    double sum[kLaneColumns] = {};
    if (mask != 0) {
      for (std::int64_t row = row_begin + group; row < row_end;
           row += static_cast<std::int64_t>(kRows) * groups) {
        float gy[kRows][kLaneColumns];
        float z[kRows][kLaneColumns];
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
          const std::int64_t r = row + u * groups;
          const unsigned in = r < row_end ? mask : 0U;
          columns.load(args.gy.data + r * args.gy.ld + column, in, gy[u]);
          if constexpr (kAct != ActKind::None) {
            columns.load(args.z.data + r * args.z.ld + column, in, z[u]);
          }
        }
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
          const std::int64_t r = row + u * groups;
          const unsigned in = r < row_end ? mask : 0U;
          finish<kAct, kVectors, kWithC>(args, columns, r, column, in, gy[u], z[u]);
#pragma unroll
          for (int j = 0; j < kLaneColumns; ++j) sum[j] += static_cast<double>(gy[u][j]);
        }
      }
    }
    if (args.kind == BiasKind::None) continue;

#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      cells[group * width + columns.first() + j * columns.step()] = sum[j];
    }
    const int sums = args.kind == BiasKind::Scalar ? 1 : width;
    sum_rows<kGradientThreads>(cells, kCells, sums);
    for (int i = static_cast<int>(threadIdx.x); i < sums; i += kGradientThreads) {
      if (args.kind == BiasKind::PerN && begin + i >= n) break;
      if (args.partial == nullptr) {
        store_bias(args.target, args.kind == BiasKind::Scalar ? 0 : begin + i, cells[i]);
      } else {
        args.partial[args.kind == BiasKind::Scalar ? item : part * n + begin + i] = cells[i];
      }
    }
    __syncthreads();
  }
}

/// With gC, gradient_along would take up to 107 registers; bound to 64 it spills none. The other
/// kernels take at most 64 unasked, and 0 leaves their code as it is: bound, some would spill.
template <bool kWithC>
inline constexpr int kLeastBlocksAlong = kWithC ? kGradientBlocksPerSm : 0;

/// PerM.
template <ActKind kAct, bool kVectors, bool kWithC>
__global__ __launch_bounds__(kGradientThreads, kLeastBlocksAlong<kWithC>) void gradient_along(
    const GradientArgs args) {
  constexpr int kPieces = kInFlight<kAct, kVectors>;
  const int lanes = 1 << args.grid.lanes_log2;
  const LaneColumns<kVectors> columns{lanes, static_cast<int>(threadIdx.x) & (lanes - 1)};
  const int group = static_cast<int>(threadIdx.x) >> args.grid.lanes_log2;
  const int groups = kGradientThreads >> args.grid.lanes_log2;
  const int width = kLaneColumns * lanes;
  const std::int64_t m = args.gy.rows;
  const std::int64_t n = args.gy.cols;
  const std::int64_t work = m * args.grid.parts;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * groups;

  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups; first < work;
       first += stride) {
    const std::int64_t item = first + group;  // item = part * m + row, as partial is laid out
    const std::int64_t part = args.grid.parts == 1 ? 0 : item / m;
    const std::int64_t row = item - part * m;
    const std::int64_t begin = part * args.grid.piece;
    const std::int64_t after = begin + args.grid.piece;
    const std::int64_t end = item >= work ? begin : (after < n ? after : n);

    double sum = 0.0;
    for (std::int64_t c = begin; c < end; c += static_cast<std::int64_t>(kPieces) * width) {
      float gy[kPieces][kLaneColumns];
      float z[kPieces][kLaneColumns];
#pragma unroll
      for (int u = 0; u < kPieces; ++u) {
        const std::int64_t column = c + u * width + columns.first();
        const unsigned mask = columns.valid(c + u * width, end);
        columns.load(args.gy.data + row * args.gy.ld + column, mask, gy[u]);
        if constexpr (kAct != ActKind::None) {
          columns.load(args.z.data + row * args.z.ld + column, mask, z[u]);
        }
      }
#pragma unroll
      for (int u = 0; u < kPieces; ++u) {
        const std::int64_t column = c + u * width + columns.first();
        const unsigned mask = columns.valid(c + u * width, end);
        finish<kAct, kVectors, kWithC>(args, columns, row, column, mask, gy[u], z[u]);
        sum += (static_cast<double>(gy[u][0]) + static_cast<double>(gy[u][1])) +
               (static_cast<double>(gy[u][2]) + static_cast<double>(gy[u][3]));
      }
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, offset);
    }
    if (columns.lane == 0 && item < work) {
      if (args.partial == nullptr) {
        store_bias(args.target, row, sum);
      } else {
        args.partial[item] = sum;
      }
    }
  }
}

// Code that a small launch does not run still costs it time to fetch, so gC has kernels of its own;
// one form of them, with scalar loads, is enough for something so rarely asked.
template <ActKind kAct>
GradientKernel select(const GradientForm& form) noexcept {
  if (form.along_rows) {
    if (form.with_c) return gradient_along<kAct, false, true>;
    return form.vectors ? gradient_along<kAct, true, false> : gradient_along<kAct, false, false>;
  }
  if (form.with_c) return gradient_down<kAct, false, true>;
  return form.vectors ? gradient_down<kAct, true, false> : gradient_down<kAct, false, false>;
}

}  // namespace ai::kernels
