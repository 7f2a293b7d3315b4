#pragma once

#include <cstdint>

#include "activation_grad.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels {

/// What the kernels over few rows are given: gZ = gY * act'(Z) packed, and its column sums. Every
/// index is below 2^31.
struct SmallGradient {
  const float* gy = nullptr;
  const float* z = nullptr;  ///< not read where act is None
  float* gz = nullptr;       ///< null: not stored, as for bias
  float* bias = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint32_t ld_gy = 0;
  std::uint32_t ld_z = 0;
  std::uint32_t bias_stride = 1;
  float slope = 0.0F;
  bool accumulate = false;  ///< add to the bias gradient that is there
};

/// One element of gZ; with a bias gradient this is all of its sum, so there is one row. Two f32 add
/// up to the same bits in f32 and in f64 rounded to f32, since 53 >= 2 * 24 + 2.
template <ActKind kAct>
AI_HOST_DEVICE inline void small_gradient_element(const SmallGradient& call, std::uint32_t row,
                                                  std::uint32_t col) {
  float gz = call.gy[row * call.ld_gy + col];
  float old = 0.0F;
  if (call.accumulate) old = call.bias[col * call.bias_stride];
  if constexpr (kAct != ActKind::None) {
    gz *= activation::derivative<kAct>(call.z[row * call.ld_z + col], call.slope);
  }
  if (call.gz != nullptr) call.gz[row * call.cols + col] = gz;
  // A sum starts at +0: of -0 alone it is +0.
  if (call.bias != nullptr) call.bias[col * call.bias_stride] = (0.0F + gz) + old;
}

/// Rows that a thread has in flight. Fewer where act' is long code that is repeated for each.
template <ActKind kAct>
inline constexpr std::uint32_t kSmallInFlight =
    kAct == ActKind::GELU || kAct == ActKind::GELUTanh ? 2 : 4;

/// The rows `first`, `first + step`, ... of one column of gZ. Returns their sum, added in this
/// order. Precondition: first < rows.
template <ActKind kAct>
AI_HOST_DEVICE inline double small_gradient_column(const SmallGradient& call, std::uint32_t col,
                                                   std::uint32_t first, std::uint32_t step) {
  constexpr std::uint32_t kRows = kSmallInFlight<kAct>;
  double sum = 0.0;
  std::uint32_t row = first;
  const auto has = [&](std::uint32_t u) { return u == 0 || row + u * step < call.rows; };
  do {
    // Past the end the first one is loaded again: loads that wait for no condition go out at once.
    float gz[kRows];
    float z[kRows] = {};
    for (std::uint32_t u = 0; u < kRows; ++u) {
      const std::uint32_t at = has(u) ? row + u * step : row;
      gz[u] = call.gy[at * call.ld_gy + col];
      if constexpr (kAct != ActKind::None) z[u] = call.z[at * call.ld_z + col];
    }
    for (std::uint32_t u = 0; u < kRows; ++u) {
      if constexpr (kAct != ActKind::None) {
        gz[u] *= activation::derivative<kAct>(z[u], call.slope);
      }
      if (!has(u)) gz[u] = 0.0F;
      sum += static_cast<double>(gz[u]);
    }
    if (call.gz != nullptr) {
      for (std::uint32_t u = 0; u < kRows; ++u) {
        if (has(u)) call.gz[(row + u * step) * call.cols + col] = gz[u];
      }
    }
    row += kRows * step;
  } while (row < call.rows);
  return sum;
}

/// Rounds the sum of a column, and what was there, to f32 once.
AI_HOST_DEVICE inline void store_small_bias(const SmallGradient& call, std::uint32_t col,
                                            double sum) {
  float* const at = call.bias + col * call.bias_stride;
  *at = static_cast<float>(call.accumulate ? static_cast<double>(*at) + sum : sum);
}

using SmallGradientKernel = void (*)(SmallGradient);
enum class SmallGradientForm {
  Elements,  ///< a thread for each element, columns along x, rows along y
  Columns,   ///< a thread for each column, for one that walks all rows
  Tiles,     ///< a block for every kTileColumns columns; its threads, up to 1024, share the rows
};
inline constexpr int kTileColumns = 8;  ///< the f32 of one 32-byte sector
inline constexpr int kMostTileThreads = 1024;
[[nodiscard]] SmallGradientKernel small_gradient_kernel(ActKind act,
                                                        SmallGradientForm form) noexcept;

}  // namespace ai::kernels
