#include "core/host_product.hpp"

namespace ai::host {

void multiply_tile(const double* left, const double* right, double* sums, std::int64_t rows,
                   std::int64_t cols, std::int64_t depth) noexcept {
  for (std::int64_t row = 0; row < rows; row += kRoundRows) {
    for (std::int64_t col = 0; col < cols; col += kRoundCols) {
      // Small enough to stay in registers, with constant bounds so that it is unrolled into them.
      double round[kRoundRows][kRoundCols];
      double* out = sums + row * kTileCols + col;
      const double* a = left + row * kTileDepth;
      const double* b = right + col;
      for (std::int64_t i = 0; i < kRoundRows; ++i) {
        for (std::int64_t j = 0; j < kRoundCols; ++j) round[i][j] = out[i * kTileCols + j];
      }
      for (std::int64_t x = 0; x < depth; ++x) {
        for (std::int64_t i = 0; i < kRoundRows; ++i) {
          for (std::int64_t j = 0; j < kRoundCols; ++j) {
            round[i][j] += a[i * kTileDepth + x] * b[x * kTileCols + j];
          }
        }
      }
      for (std::int64_t i = 0; i < kRoundRows; ++i) {
        for (std::int64_t j = 0; j < kRoundCols; ++j) out[i * kTileCols + j] = round[i][j];
      }
    }
  }
}

}  // namespace ai::host
