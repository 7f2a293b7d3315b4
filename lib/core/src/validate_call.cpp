#include <algorithm>

#include "core/validate.hpp"

namespace ai::validation {
namespace {

constexpr Operand matrix(const char* name, const Tensor& tensor, Use use) {
  return {name, &tensor, use, Form::Matrix, Axis::M, Axis::N, nullptr};
}

constexpr Operand bias(const char* name, const Tensor& tensor, Use use) {
  return {name, &tensor, use, Form::Bias, Axis::M, Axis::N, nullptr};
}

constexpr Use read_if(bool is_read) {
  return is_read ? Use::Read : Use::Described;
}

std::optional<BiasKind> kind_of(const Extents& shape, std::int64_t m, std::int64_t n) {
  if (shape.rank() == 1) {
    const std::int64_t count = shape[0];
    if (count == 1) return BiasKind::Scalar;
    if (count == n) return BiasKind::PerN;
    if (count == m) return BiasKind::PerM;
    return std::nullopt;
  }
  const std::int64_t rows = shape[0];
  const std::int64_t cols = shape[1];
  if (rows == 1 && cols == 1) return BiasKind::Scalar;
  if (rows == 1 && cols == n) return BiasKind::PerN;
  if (rows == m && cols == 1) return BiasKind::PerM;
  return std::nullopt;
}

Tensor normalised_matrix(Tensor tensor) {
  TensorDesc& desc = tensor.desc;
  const std::int64_t rows = desc.shape[0];
  const std::int64_t cols = desc.shape[1];
  const bool has_ld = rows > 1 && cols > 0;
  const std::int64_t ld = has_ld ? desc.stride[0] : std::max<std::int64_t>(cols, 1);
  desc.shape = {rows, cols};
  desc.stride = {ld, 1};
  return tensor;
}

Tensor normalised_bias(Tensor tensor, BiasKind kind, std::int64_t m, std::int64_t n) {
  TensorDesc& desc = tensor.desc;
  const std::int64_t count = kind == BiasKind::Scalar ? 1 : kind == BiasKind::PerN ? n : m;
  const int axis = desc.shape.rank() == 2 && kind == BiasKind::PerN ? 1 : 0;
  const std::int64_t stride = count > 1 ? desc.stride[axis] : 1;
  desc.shape = {count};
  desc.stride = {stride};
  return tensor;
}

}  // namespace

// What the attributes leave unread is described alone: its memory may be anything.

Call::Call(const GemmForward& call) noexcept : backward_(false), attrs_(&call.attrs) {
  add_factors(call.A, call.B, true, true);
  if (call.C) add(matrix("C", *call.C, read_if(attrs_->beta != 0.0F)));
  if (call.bias) add(bias("bias", *call.bias, Use::Read));
  add(matrix("Y", call.Y, Use::Written));
  if (call.Z) add(matrix("Z", *call.Z, Use::Written));
}

Call::Call(const GemmBackward& call) noexcept : backward_(true), attrs_(&call.attrs) {
  add_factors(call.A, call.B, call.gB.has_value(), call.gA.has_value());
  if (call.C) add(matrix("C", *call.C, Use::Described));
  add(matrix("gY", call.gY, Use::Read));
  if (call.Z) add(matrix("Z", *call.Z, read_if(attrs_->act != ActKind::None)));
  add_gradient("gA", call.gA, operands_[0]);
  add_gradient("gB", call.gB, operands_[1]);
  add_gradient("gC", call.gC, matrix("", call.gY, Use::Written));
  add_gradient("gBias", call.gBias, bias("", call.gY, Use::Written));
}

void Call::add_factors(const Tensor& a, const Tensor& b, bool uses_a, bool uses_b) noexcept {
  const bool has_product = attrs_->alpha != 0.0F;
  const bool trans_a = attrs_->trans_a;
  const bool trans_b = attrs_->trans_b;
  Operand left = matrix("A", a, read_if(uses_a && has_product));
  left.rows = trans_a ? Axis::K : Axis::M;
  left.cols = trans_a ? Axis::M : Axis::K;
  Operand right = matrix("B", b, read_if(uses_b && has_product));
  right.rows = trans_b ? Axis::N : Axis::K;
  right.cols = trans_b ? Axis::K : Axis::N;
  add(left);
  add(right);
  extents_ = {a.desc.shape[trans_a ? 1 : 0], b.desc.shape[trans_b ? 0 : 1],
              a.desc.shape[trans_a ? 0 : 1]};
}

void Call::add_gradient(const char* name, const std::optional<Gradient>& gradient,
                        const Operand& like) noexcept {
  if (!gradient) return;
  Operand operand = like;
  operand.name = name;
  operand.tensor = &gradient->tensor;
  operand.use = Use::Written;
  operand.mode = &gradient->mode;
  add(operand);
}

const Operand* Call::find(std::string_view name) const noexcept {
  for (const Operand& operand : operands()) {
    if (operand.name == name) return &operand;
  }
  return nullptr;
}

std::optional<BiasKind> Call::bias_kind() const noexcept {
  const Operand* operand = find(backward_ ? "gBias" : "bias");
  if (operand == nullptr) return BiasKind::None;
  return kind_of(operand->tensor->desc.shape, extent(Axis::M), extent(Axis::N));
}

Tensor Call::normalised(const Operand& operand) const noexcept {
  if (operand.form == Form::Matrix) return normalised_matrix(*operand.tensor);
  return normalised_bias(*operand.tensor, bias_kind().value_or(BiasKind::Scalar), extent(Axis::M),
                         extent(Axis::N));
}

}  // namespace ai::validation
