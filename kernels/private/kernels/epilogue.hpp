#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ai/activation.hpp"
#include "ai/gemm.hpp"
#include "ai/step.hpp"
#include "cuda/api.hpp"
#include "kernels/views.hpp"

namespace ai::kernels {

/// Z = raw + beta * C + bias, Y = act(Z), all [rows, cols], in one pass. `raw`, `c`, `z` and the
/// bias may be absent (null): an absent raw is 0, an absent z is not stored. raw may be y or z, and
/// c may be y, each with one leading dimension: every element is read before it is written, by one
/// thread. Bias element of (r, c): bias[r * bias_row + c * bias_col].
struct Epilogue {
  MatrixView raw = {};
  MatrixView c = {};
  MatrixView z = {};
  MatrixView y = {};
  const float* bias = nullptr;
  std::int64_t bias_row = 0;
  std::int64_t bias_col = 0;
  std::int64_t bias_count = 0;
  float beta = 0.0F;
  float slope = 0.0F;
  ActKind act = ActKind::None;

  /// Sets the bias from a vector of the given kind.
  void set_bias(BiasKind kind, const VectorView& view) noexcept;
};

/// What the kernel is given: the views over real addresses, and the grid-stride loop's step taken
/// apart into rows and columns (in units of `width` elements), so that the loop divides nothing.
struct EpilogueArguments {
  Epilogue call;
  std::int64_t cols;  ///< per row, in units
  std::int64_t step_rows;
  std::int64_t step_cols;
};

/// The kernel `void(EpilogueArguments)` for an activation; `width` 4 demands 16-byte aligned
/// addresses, leading dimensions and columns in fours; 1 demands nothing.
[[nodiscard]] const void* epilogue_kernel(ActKind act, int width) noexcept;

/// `resident_threads`: what the device holds at once, which bounds large grids. Precondition: y has
/// elements.
[[nodiscard]] std::shared_ptr<Step> make_epilogue_step(const cuda::Api& api,
                                                       std::int64_t resident_threads,
                                                       const Epilogue& epilogue, std::string name);

}  // namespace ai::kernels
