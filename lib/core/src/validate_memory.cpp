#include "ai/memory.hpp"
#include "core/text.hpp"
#include "core/validate_rules.hpp"

namespace ai::validation::rules {
namespace {

constexpr std::int64_t kElementBytes = 4;

/// Rows, columns and their strides; a bias is a column of `rows` elements.
struct View {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;
  std::int64_t col_stride;

  [[nodiscard]] bool is_empty() const { return rows <= 0 || cols <= 0; }
};

View view_of(const Call& call, const Operand& operand) {
  if (operand.form == Form::Matrix) {
    const TensorDesc& desc = operand.tensor->desc;
    return {desc.shape[0], desc.shape[1], desc.stride[0], desc.stride[1]};
  }
  const TensorDesc desc = call.normalised(operand).desc;
  return {desc.shape[0], 1, desc.stride[0], 1};
}

/// False where the bytes of `tensor`, a normalised one, or the address behind its last one do not
/// fit.
bool span_fits(const Tensor& tensor, std::uintptr_t begin) {
  const TensorDesc& desc = tensor.desc;
  const std::int64_t rows = desc.shape[0];
  const std::int64_t cols = desc.shape.rank() == 2 ? desc.shape[1] : 1;
  if (rows <= 0 || cols <= 0) return true;
  std::int64_t bytes = 0;
  std::uintptr_t end = 0;
  return !__builtin_mul_overflow(rows - 1, desc.stride[0], &bytes) &&
         !__builtin_add_overflow(bytes, cols, &bytes) &&
         !__builtin_mul_overflow(bytes, kElementBytes, &bytes) &&
         !__builtin_add_overflow(begin, static_cast<std::uintptr_t>(bytes), &end);
}

std::string place_text(const Operand& operand) {
  const Tensor& tensor = *operand.tensor;
  return text(operand.name, " is ", tensor.desc.shape, " with strides ", tensor.desc.stride, " at ",
              static_cast<const void*>(tensor.data));
}

/// The one sharing that is meant: Y is computed in place of C.
bool is_in_place(const Operand& output, const Tensor& output_view, const Operand& other,
                 const Tensor& other_view) {
  return output.name == std::string_view("Y") && other.name == std::string_view("C") &&
         output_view.data == other_view.data && output_view.desc.stride == other_view.desc.stride;
}

}  // namespace

Status expanded(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const View view = view_of(call, operand);
    if (view.is_empty()) continue;
    const bool shared =
        (view.rows > 1 && view.row_stride == 0) || (view.cols > 1 && view.col_stride == 0);
    if (!shared) continue;
    return {StatusCode::StrideMismatch,
            text(operand.name, " is expanded (", operand.tensor->desc.shape, " with strides ",
                 operand.tensor->desc.stride, "), expected memory for every element")};
  }
  return {};
}

Status inner_stride(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const View view = view_of(call, operand);
    if (view.rows <= 0 || view.cols <= 1 || view.col_stride == 1) continue;
    std::string hint;
    if (view.row_stride == 1 && operand.name == std::string_view("A")) hint = "trans_a";
    if (view.row_stride == 1 && operand.name == std::string_view("B")) hint = "trans_b";
    if (!hint.empty()) hint = " (or describe its transpose and flip " + hint + ")";
    return {StatusCode::StrideMismatch,
            text(operand.name, " has strides ", operand.tensor->desc.stride,
                 ", expected a stride of 1 along its rows", hint)};
  }
  return {};
}

Status leading_dimension(const Call& call) {
  for (const Operand& operand : call.operands()) {
    if (operand.form != Form::Matrix) continue;
    const View view = view_of(call, operand);
    if (view.rows <= 1 || view.cols <= 0 || view.row_stride >= view.cols) continue;
    return {StatusCode::StrideMismatch,
            text(operand.name, " has leading dimension ", view.row_stride, ", expected at least ",
                 view.cols, " because it is ", operand.tensor->desc.shape)};
  }
  return {};
}

Status bias_stride(const Call& call) {
  for (const Operand& operand : call.operands()) {
    if (operand.form != Form::Bias) continue;
    const View view = view_of(call, operand);
    if (view.rows <= 1 || view.row_stride >= 1) continue;
    return {StatusCode::StrideMismatch,
            text(operand.name, " has stride ", view.row_stride,
                 ", expected at least 1 because it is ", operand.tensor->desc.shape)};
  }
  return {};
}

Status span(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const void* data = operand.use == Use::Described ? nullptr : operand.tensor->data;
    if (span_fits(call.normalised(operand), reinterpret_cast<std::uintptr_t>(data))) continue;
    return {StatusCode::Invalid,
            text(place_text(operand), ", expected its bytes to fit 64-bit addresses")};
  }
  return {};
}

Status null_data(const Call& call) {
  for (const Operand& operand : call.operands()) {
    if (operand.use == Use::Described || operand.tensor->data != nullptr) continue;
    if (view_of(call, operand).is_empty()) continue;
    return {StatusCode::Invalid, text(operand.name, " is null, expected memory because it is ",
                                      operand.tensor->desc.shape)};
  }
  return {};
}

Status alignment(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const auto address = reinterpret_cast<std::uintptr_t>(operand.tensor->data);
    if (operand.use == Use::Described || address % kElementBytes == 0) continue;
    if (view_of(call, operand).is_empty()) continue;
    return {StatusCode::Invalid,
            text(operand.name, " is at ", static_cast<const void*>(operand.tensor->data),
                 ", expected a multiple of ", kElementBytes)};
  }
  return {};
}

Status overlap(const Call& call) {
  for (const Operand& output : call.operands()) {
    if (output.use != Use::Written) continue;
    const Tensor output_view = call.normalised(output);
    for (const Operand& other : call.operands()) {
      // Two outputs meet once, the later one in the role of `output`.
      if (other.use == Use::Described || (other.use == Use::Written && &other >= &output)) continue;
      const Tensor other_view = call.normalised(other);
      if (is_in_place(output, output_view, other, other_view)) continue;
      if (!overlaps(range_of(output_view), range_of(other_view))) continue;
      return {StatusCode::Overlap, text(output.name, " overlaps ", other.name, ": ",
                                        place_text(output), ", ", place_text(other))};
    }
  }
  return {};
}

}  // namespace ai::validation::rules
