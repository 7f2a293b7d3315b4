#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ai/gemm.hpp"
#include "ai/status.hpp"

namespace ai::validation {

/// An extent of the product, as a matrix stores it.
enum class Axis { M, N, K };

/// What a call does with an operand's memory. Described: nothing at all, only the description
/// counts (C of a backward call, A and B where alpha is 0, ...).
enum class Use { Read, Written, Described };

enum class Form { Matrix, Bias };

struct Operand {
  const char* name = "";
  const Tensor* tensor = nullptr;
  Use use = Use::Read;
  Form form = Form::Matrix;
  Axis rows = Axis::M;  ///< matrices only, as is `cols`
  Axis cols = Axis::N;
  const GradMode* mode = nullptr;  ///< gradients only
};

/// A call of either direction, as the rules see it: the operands that were given, inputs first, and
/// the extents that A and B ask for. Borrows the call; checks nothing.
class Call {
 public:
  explicit Call(const GemmForward& call) noexcept;
  explicit Call(const GemmBackward& call) noexcept;

  [[nodiscard]] bool is_backward() const noexcept { return backward_; }
  [[nodiscard]] const GemmAttrs& attrs() const noexcept { return *attrs_; }
  [[nodiscard]] std::span<const Operand> operands() const noexcept {
    return {operands_.data(), count_};
  }
  /// Null where it was not given.
  [[nodiscard]] const Operand* find(std::string_view name) const noexcept;
  /// M and K are A's, N is B's.
  [[nodiscard]] std::int64_t extent(Axis axis) const noexcept {
    return extents_[static_cast<std::size_t>(axis)];
  }
  /// The kind of bias or gBias; empty where its shape fits none, None where there is none.
  [[nodiscard]] std::optional<BiasKind> bias_kind() const noexcept;
  /// The operand as GemmPlan holds it. Meaningful once the rules on shapes and strides hold.
  [[nodiscard]] Tensor normalised(const Operand& operand) const noexcept;

 private:
  void add(const Operand& operand) noexcept { operands_[count_++] = operand; }
  void add_factors(const Tensor& a, const Tensor& b, bool uses_a, bool uses_b) noexcept;
  void add_gradient(const char* name, const std::optional<Gradient>& gradient,
                    const Operand& like) noexcept;

  bool backward_;
  const GemmAttrs* attrs_;
  std::array<Operand, 9> operands_{};
  std::size_t count_ = 0;
  std::array<std::int64_t, 3> extents_{};
};

/// Runs every rule, in table order; the first one that does not hold decides. May throw
/// std::bad_alloc.
[[nodiscard]] Status validate(const Call& call);

}  // namespace ai::validation
