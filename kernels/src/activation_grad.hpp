#pragma once

#include <cstdint>

#include "ai/activation.hpp"
#include "ai/gemm.hpp"
#include "bias_grad.hpp"
#include "kernels/views.hpp"

namespace ai::kernels {

inline constexpr int kGradientThreads = 256;
/// Blocks that a multiprocessor holds of every kernel: none has more than 64 registers a thread.
inline constexpr int kGradientBlocksPerSm = 4;
/// Columns that one lane holds of a tile.
inline constexpr int kLaneColumns = 4;

/// How one launch divides [M,N]. A block is 2^lanes_log2 lanes across by as many row groups as fit
/// in 256 threads, and covers 4 columns a lane.
///   Down the columns (None, Scalar, PerN): tiles of columns x parts of rows, a block each.
///   Along the rows (PerM): a group of lanes (one warp at most) sums one of `parts` pieces of a
///   row, `piece` columns wide.
/// The division does not depend on whether loads are vectors.
struct GradientGrid {
  int lanes_log2 = 0;
  std::int64_t tiles = 1;
  std::int64_t parts = 1;
  std::int64_t piece = 0;
  std::int64_t rows = 0;  ///< of each part; the first `longer` parts have one more
  std::int64_t longer = 0;
  std::int64_t blocks = 1;  ///< the kernels stride over the rest

  [[nodiscard]] int lanes() const noexcept { return 1 << lanes_log2; }
  [[nodiscard]] int groups() const noexcept { return kGradientThreads >> lanes_log2; }
};

/// A grid that fills `sm_count` multiprocessors.
[[nodiscard]] GradientGrid full_grid(BiasKind kind, std::int64_t m, std::int64_t n,
                                     int sm_count) noexcept;
/// A grid in which each sum belongs to one block or warp, so that one kernel is enough. For Scalar
/// this is one block of at most 1024 columns.
[[nodiscard]] GradientGrid one_kernel_grid(BiasKind kind, std::int64_t m, std::int64_t n,
                                           int sm_count) noexcept;
/// How many rows (PerM: groups of 4 columns) a thread of that grid walks; -1 where no block can
/// hold a sum.
[[nodiscard]] std::int64_t steps_per_thread(const GradientGrid& grid, BiasKind kind) noexcept;

struct GradientArgs {
  MatrixView gy;
  MatrixView z;   ///< not read where act is None
  MatrixView gz;  ///< null data: not stored, as for gc
  MatrixView gc;
  bool accumulate_c = false;
  float beta = 0.0F;
  float slope = 0.0F;
  BiasKind kind = BiasKind::None;
  GradientGrid grid;
  /// PerN, PerM: [parts, count]; Scalar: [parts * tiles]. Null: sums go straight to `target`.
  double* partial = nullptr;
  BiasTarget target;
};

/// Which kernel of an activation.
struct GradientForm {
  bool along_rows = false;  ///< PerM; otherwise down the columns
  bool with_c = false;      ///< gC is asked; then `vectors` has no meaning
  bool vectors = false;     ///< columns are a multiple of 4, each row starts at 16 bytes everywhere
};

using GradientKernel = void (*)(GradientArgs);
[[nodiscard]] GradientKernel gradient_kernel(ActKind act, const GradientForm& form) noexcept;

/// Parts of the table, so that they compile side by side; null for an act of another part.
[[nodiscard]] GradientKernel linear_gradient_kernel(ActKind act, const GradientForm& form) noexcept;
[[nodiscard]] GradientKernel exp_gradient_kernel(ActKind act, const GradientForm& form) noexcept;
[[nodiscard]] GradientKernel gelu_gradient_kernel(ActKind act, const GradientForm& form) noexcept;

}  // namespace ai::kernels
