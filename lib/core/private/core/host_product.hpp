#pragma once

#include <algorithm>
#include <cstdint>

#include "core/host_view.hpp"

namespace ai::host {

/// Products are computed tile by tile: pieces of both factors are packed into doubles on the stack,
/// so one loop serves every stride, transpose and element type, and needs no heap.
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileCols = 64;
inline constexpr std::int64_t kTileDepth = 64;
/// What one round of the inner loop computes; tiles are padded with zeros to whole rounds.
inline constexpr std::int64_t kRoundRows = 4;
inline constexpr std::int64_t kRoundCols = 8;

/// sums += left * right. left is [rows, depth] with row length kTileDepth, right [depth, cols] and
/// sums [rows, cols] with row length kTileCols; rows and cols are whole rounds.
void multiply_tile(const double* left, const double* right, double* sums, std::int64_t rows,
                   std::int64_t cols, std::int64_t depth) noexcept;

[[nodiscard]] constexpr std::int64_t whole_rounds(std::int64_t count, std::int64_t round) {
  return (count + round - 1) / round * round;
}

/// Copies [rows, cols] of `view` from (row, col) on; what is left of [all_rows, all_cols] becomes
/// 0.
template <typename T>
void pack(const View<T>& view, std::int64_t row, std::int64_t col, std::int64_t rows,
          std::int64_t cols, std::int64_t all_rows, std::int64_t all_cols, double* out,
          std::int64_t out_ld) noexcept {
  for (std::int64_t r = 0; r < all_rows; ++r) {
    for (std::int64_t c = 0; c < all_cols; ++c) {
      const bool inside = r < rows && c < cols;
      out[r * out_ld + c] = inside ? static_cast<double>(view.at(row + r, col + c)) : 0.0;
    }
  }
}

/// left [m,k] times right [k,n], accumulated in double in ascending order of k. Each stretch of a
/// row goes to sink(row, col, sums, count), once. k = 0 gives zeros and reads nothing.
template <typename Left, typename Right, typename Sink>
void product(const View<Left>& left, const View<Right>& right, std::int64_t m, std::int64_t n,
             std::int64_t k, Sink&& sink) {
  alignas(64) double left_tile[kTileRows * kTileDepth];
  alignas(64) double right_tile[kTileDepth * kTileCols];
  alignas(64) double sums[kTileRows * kTileCols];
  for (std::int64_t row = 0; row < m; row += kTileRows) {
    const std::int64_t rows = std::min(kTileRows, m - row);
    const std::int64_t all_rows = whole_rounds(rows, kRoundRows);
    for (std::int64_t col = 0; col < n; col += kTileCols) {
      const std::int64_t cols = std::min(kTileCols, n - col);
      const std::int64_t all_cols = whole_rounds(cols, kRoundCols);
      std::fill(sums, sums + all_rows * kTileCols, 0.0);
      for (std::int64_t start = 0; start < k; start += kTileDepth) {
        const std::int64_t depth = std::min(kTileDepth, k - start);
        pack(left, row, start, rows, depth, all_rows, depth, left_tile, kTileDepth);
        pack(right, start, col, depth, cols, depth, all_cols, right_tile, kTileCols);
        multiply_tile(left_tile, right_tile, sums, all_rows, all_cols, depth);
      }
      for (std::int64_t r = 0; r < rows; ++r) sink(row + r, col, sums + r * kTileCols, cols);
    }
  }
}

}  // namespace ai::host
