#pragma once

#include <cstdint>
#include <vector>

#include "ai/activation.hpp"
#include "ai/gemm.hpp"
#include "kernels/launch.hpp"
#include "kernels/product.hpp"
#include "kernels/views.hpp"

namespace ai::kernels {

/// The most rows or, for the outer products, terms of a sum.
inline constexpr int kFusedMost = 8;
/// A thread takes patches of so many columns and so many terms of their sums.
inline constexpr int kFusedPatch = 4;
inline constexpr int kFusedMostThreads = 512;

/// Y = act(Z), Z = product + bias, where the product ends in Y. `z` may be absent.
struct FusedCall {
  Product product = {};
  MatrixView z = {};
  VectorView bias = {};
  BiasKind bias_kind = BiasKind::None;
  ActKind act = ActKind::None;
  float slope = 0.0F;
};

/// Element (row, column) at data[row * row_step + column * column_step].
struct FusedTarget {
  float* data;
  std::uint32_t row_step;
  std::uint32_t column_step;
};

/// What the kernels are given: Y[m,n] over L [m,k] and R [k,n], each with a step along either axis.
/// Within the spans that the family serves every offset fits in 32 bits.
struct FusedArguments {
  const float* l;
  const float* r;
  const float* bias;  ///< null: absent
  FusedTarget c;      ///< null: absent
  FusedTarget z;      ///< null: not stored
  FusedTarget y;
  std::uint32_t m;
  std::uint32_t n;
  std::uint32_t k;
  std::uint32_t l_m;  ///< from row to row of op(L), and so on
  std::uint32_t l_k;
  std::uint32_t r_k;
  std::uint32_t r_n;
  std::uint32_t bias_row;
  std::uint32_t bias_column;
  float alpha;
  float beta;
  float slope;
  std::uint32_t wide_l;      ///< 4 terms of L are one load
  std::uint32_t lanes_log2;  ///< outer: threads that share a row in one block
  std::uint32_t parts_log2;  ///< outer: blocks that share a row
};

/// How a thread loads its patch of R: 4 neighbours at once along n or along k, or one by one. All
/// three add up the same terms in the same order.
enum class FusedLoads { AlongN, AlongK, Single };

/// Which kernel of an activation: rows 1, 2, 4 or 8; 4 << lanes_log2 columns a block, lanes_log2
/// one of 0 (a single row only), 1 and 3 (not AlongK).
struct FusedForm {
  int rows = 1;
  FusedLoads loads = FusedLoads::Single;
  int lanes_log2 = 1;
  bool operator==(const FusedForm&) const = default;
};

/// How the columns and the terms of the sums are shared out. The order of each sum depends on it
/// and on nothing else.
struct FusedShape {
  int lanes_log2 = 1;  ///< of FusedForm
  int threads = 32;    ///< a block; 32 (a single row only) or a multiple of 128
  bool operator==(const FusedShape&) const = default;
};

/// m, n and k of the problem as the kernels see it: turned over where only N is as small as they
/// want M.
struct FusedExtents {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool turned;
};
[[nodiscard]] FusedExtents fused_extents(const Product& product) noexcept;

/// The launches worth timing, the likely best first. Precondition: M or N is at most kFusedMost.
[[nodiscard]] std::vector<FusedShape> fused_shapes(const Product& product);
/// How many blocks a launch has, and how often each thread of one takes a patch.
[[nodiscard]] std::int64_t fused_blocks(const Product& product, const FusedShape& shape) noexcept;
[[nodiscard]] std::int64_t fused_rounds(const Product& product, const FusedShape& shape) noexcept;

/// What is launched over the addresses of a call as they are.
struct FusedLaunch {
  FusedArguments arguments;
  FusedForm form;
  LaunchShape grid;
};
[[nodiscard]] FusedLaunch fused_launch(const FusedCall& call, const FusedShape& shape) noexcept;
/// The loads that would do if all addresses were aligned.
[[nodiscard]] FusedLoads fused_best_loads(const Product& product) noexcept;
/// Precondition: K is at most kFusedMost. Only the product is looked at; of the form, rows are the
/// terms that the kernel has, and loads are AlongN or Single.
[[nodiscard]] FusedLaunch outer_launch(const FusedCall& call) noexcept;

/// One block a tile of columns: each of its sums is split over the block's threads.
using FusedKernel = void (*)(FusedArguments);
[[nodiscard]] FusedKernel fused_kernel(ActKind act, const FusedForm& form) noexcept;
/// One thread an element, or 4 with AlongN. It has no activation, bias or Z.
[[nodiscard]] FusedKernel outer_kernel(const FusedForm& form) noexcept;

/// Parts of the table, so that they compile side by side; null for an act of another part.
[[nodiscard]] FusedKernel linear_fused_kernel(ActKind act, const FusedForm& form) noexcept;
[[nodiscard]] FusedKernel exp_fused_kernel(ActKind act, const FusedForm& form) noexcept;
[[nodiscard]] FusedKernel gelu_fused_kernel(ActKind act, const FusedForm& form) noexcept;

}  // namespace ai::kernels
