#pragma once

#include <cstdint>
#include <optional>

#include "ai/activation.hpp"
#include "ai/status.hpp"
#include "ai/tensor.hpp"

namespace ai {

/// Arithmetic of the products. F32 is IEEE f32 with fused multiply-add: no TF32, no emulation.
enum class Precision { F32 };

/// What a gradient does with the old contents of its tensor.
enum class GradMode { Overwrite, Accumulate };

/// Along which axis of Z[M,N] the bias runs.
enum class BiasKind { None, Scalar, PerN, PerM };
[[nodiscard]] const char* to_string(BiasKind kind) noexcept;

/// Attributes shared by a forward call and its backward call.
struct GemmAttrs {
  bool trans_a = false;    ///< A is stored [K,M]
  bool trans_b = false;    ///< B is stored [N,K]
  bool with_bias = false;  ///< demands the bias operand; a bias that is given is always applied
  bool save_z = false;     ///< demands the Z operand; a Z that is given is always written
  ActKind act = ActKind::None;
  float leaky_slope = 0.01F;  ///< LeakyReLU only; finite, any sign
  float alpha = 1.0F;         ///< 0: A and B are not read (NaN in them does not spread)
  float beta = 0.0F;          ///< 0: C is not read
  Precision precision = Precision::F32;
};

/// Y = act(Z), Z = alpha * op(A) op(B) + beta * C + bias, with Y, Z, C [M,N], op(A) [M,K], op(B)
/// [K,N]. bias: [1,1] or [1] Scalar; [1,N] or [N] PerN; [M,1] PerM, as is [M] where M != N. It may
/// be strided (a matrix column serves as PerM). C may be Y itself, with the same leading dimension.
struct GemmForward {
  Tensor A = {};
  Tensor B = {};
  std::optional<Tensor> C = {};
  std::optional<Tensor> bias = {};
  Tensor Y = {};
  std::optional<Tensor> Z = {};
  GemmAttrs attrs = {};
};

/// Where a gradient goes, and whether it replaces or adds to what is there.
struct Gradient {
  Gradient(const Tensor& where,
           GradMode how = GradMode::Overwrite)  // NOLINT: a Tensor is a Gradient
      : tensor(where), mode(how) {}
  Tensor tensor;
  GradMode mode;
};

/// gZ = gY * act'(Z), then each gradient that is given:
///   gA = alpha * gZ op(B)^T, stored as A is     gB = alpha * op(A)^T gZ, stored as B is
///   gC = beta * gZ (needs C)                    gBias = gZ summed over the axes bias was spread
///   over
/// Z is what the forward call saved; it may be absent where act is None. C is never read.
/// A sum over nothing is written as zero.
struct GemmBackward {
  Tensor A = {};
  Tensor B = {};
  std::optional<Tensor> C = {};
  Tensor gY = {};
  std::optional<Tensor> Z = {};
  std::optional<Gradient> gA = {};
  std::optional<Gradient> gB = {};
  std::optional<Gradient> gC = {};
  std::optional<Gradient> gBias = {};
  GemmAttrs attrs = {};
};

/// A call that was validated once and needs no further check. Immutable, owns no memory, holds the
/// tensors by value with normalised shapes and strides: every matrix has rank 2 and strides
/// {ld, 1} with ld >= max(cols, 1); bias and gBias have rank 1 and the count of their kind.
class GemmPlan {
 public:
  enum class Direction { Forward, Backward };

  [[nodiscard]] Direction direction() const noexcept { return direction_; }
  [[nodiscard]] std::int64_t m() const noexcept { return m_; }
  [[nodiscard]] std::int64_t n() const noexcept { return n_; }
  [[nodiscard]] std::int64_t k() const noexcept { return k_; }
  /// Forward: the kind of bias, None without one. Backward: the kind of gBias, None without one.
  [[nodiscard]] BiasKind bias_kind() const noexcept { return bias_kind_; }
  [[nodiscard]] const GemmAttrs& attrs() const noexcept {
    return direction_ == Direction::Forward ? forward_.attrs : backward_.attrs;
  }
  [[nodiscard]] Device device() const noexcept { return a().device; }
  [[nodiscard]] int device_index() const noexcept { return a().device_index; }
  /// The operands. Only the one that direction() names has a meaning.
  [[nodiscard]] const GemmForward& forward() const noexcept { return forward_; }
  [[nodiscard]] const GemmBackward& backward() const noexcept { return backward_; }

 private:
  friend Result<GemmPlan> plan_forward(const GemmForward& call) noexcept;
  friend Result<GemmPlan> plan_backward(const GemmBackward& call) noexcept;
  GemmPlan() noexcept = default;
  [[nodiscard]] const Tensor& a() const noexcept {
    return direction_ == Direction::Forward ? forward_.A : backward_.A;
  }

  Direction direction_ = Direction::Forward;
  std::int64_t m_ = 0;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  BiasKind bias_kind_ = BiasKind::None;
  GemmForward forward_;
  GemmBackward backward_;
};

/// Validates a call. Touches no device and reads no operand's memory. Errors name the operand:
/// DeviceMismatch, DtypeMismatch, LayoutMismatch, ShapeMismatch, StrideMismatch, MissingInput,
/// MissingOutput, Overlap, Invalid (null or misaligned data, slope, alpha or beta not finite).
[[nodiscard]] Result<GemmPlan> plan_forward(const GemmForward& call) noexcept;
[[nodiscard]] Result<GemmPlan> plan_backward(const GemmBackward& call) noexcept;

}  // namespace ai
