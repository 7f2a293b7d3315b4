#include "core/text.hpp"
#include "core/validate_rules.hpp"

namespace ai::validation::rules {
namespace {

std::string device_text(const Tensor& tensor) {
  return text(to_string(tensor.device), ":", tensor.device_index);
}

/// The factor that fixes an extent.
constexpr std::string_view source_of(Axis axis) {
  return axis == Axis::N ? "B" : "A";
}

/// "A is [64,256]", "B is [192,256] with trans_b".
std::string factor_text(const Call& call, std::string_view name) {
  const bool is_a = name == "A";
  const bool transposed = is_a ? call.attrs().trans_a : call.attrs().trans_b;
  return text(name, " is ", call.find(name)->tensor->desc.shape,
              !transposed ? ""
              : is_a      ? " with trans_a"
                          : " with trans_b");
}

/// The wanted extent, or its letter where the operand itself fixes it: only B's N, since A, which
/// comes first, is never the one that is wrong.
std::string axis_text(const Call& call, const Operand& operand, Axis axis) {
  return source_of(axis) == operand.name ? "N" : std::to_string(call.extent(axis));
}

/// The factors that fix the extents of this operand.
std::string reason_text(const Call& call, const Operand& operand) {
  std::string out;
  for (const std::string_view name : {"A", "B"}) {
    if (name == operand.name) continue;
    if (name != source_of(operand.rows) && name != source_of(operand.cols)) continue;
    if (!out.empty()) out += " and ";
    out += factor_text(call, name);
  }
  return out;
}

}  // namespace

Status device_kind(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const Device value = operand.tensor->device;
    if (value == Device::CPU || value == Device::CUDA) continue;
    return {StatusCode::Invalid, text(operand.name, " is on device kind ", static_cast<int>(value),
                                      ", expected Device::CPU or CUDA")};
  }
  return {};
}

Status device_index(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const int index = operand.tensor->device_index;
    if (index >= 0) continue;
    return {StatusCode::Invalid,
            text(operand.name, " has device index ", index, ", expected 0 or more")};
  }
  return {};
}

Status device(const Call& call) {
  const Tensor& a = *call.find("A")->tensor;
  for (const Operand& operand : call.operands()) {
    const Tensor& tensor = *operand.tensor;
    if (tensor.device == a.device && tensor.device_index == a.device_index) continue;
    return {StatusCode::DeviceMismatch, text(operand.name, " is on ", device_text(tensor),
                                             ", expected ", device_text(a), " because A is there")};
  }
  return {};
}

Status dtype_kind(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const int value = static_cast<int>(operand.tensor->desc.dtype);
    if (value >= 0 && value <= static_cast<int>(DType::I8)) continue;
    return {StatusCode::Invalid,
            text(operand.name, " has dtype ", value, ", expected one of DType")};
  }
  return {};
}

Status dtype(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const DType value = operand.tensor->desc.dtype;
    if (value == DType::F32) continue;
    return {StatusCode::DtypeMismatch,
            text(operand.name, " is ", to_string(value), ", expected F32")};
  }
  return {};
}

Status layout_kind(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const Layout value = operand.tensor->desc.layout;
    if (value == Layout::RowMajor || value == Layout::ColMajor) continue;
    return {StatusCode::Invalid, text(operand.name, " has layout ", static_cast<int>(value),
                                      ", expected one of Layout")};
  }
  return {};
}

Status layout(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const Layout value = operand.tensor->desc.layout;
    if (value == Layout::RowMajor) continue;
    return {StatusCode::LayoutMismatch,
            text(operand.name, " is ", to_string(value), ", expected RowMajor")};
  }
  return {};
}

Status rank(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const Extents& shape = operand.tensor->desc.shape;
    const bool is_bias = operand.form == Form::Bias;
    if (shape.rank() == 2 || (is_bias && shape.rank() == 1)) continue;
    return {StatusCode::ShapeMismatch, text(operand.name, " is ", shape, " of rank ", shape.rank(),
                                            ", expected rank ", is_bias ? "1 or 2" : "2")};
  }
  return {};
}

Status stride_rank(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const TensorDesc& desc = operand.tensor->desc;
    if (desc.stride.rank() == desc.shape.rank()) continue;
    return {StatusCode::StrideMismatch,
            text(operand.name, " has strides ", desc.stride, ", expected ", desc.shape.rank(),
                 " because it is ", desc.shape)};
  }
  return {};
}

Status extents(const Call& call) {
  for (const Operand& operand : call.operands()) {
    const Extents& shape = operand.tensor->desc.shape;
    if (shape[0] >= 0 && shape[1] >= 0) continue;
    return {StatusCode::Invalid,
            text(operand.name, " is ", shape, ", expected no negative extent")};
  }
  return {};
}

Status shape(const Call& call) {
  for (const Operand& operand : call.operands()) {
    if (operand.form != Form::Matrix) continue;
    const Extents& given = operand.tensor->desc.shape;
    if (given[0] == call.extent(operand.rows) && given[1] == call.extent(operand.cols)) continue;
    return {StatusCode::ShapeMismatch,
            text(operand.name, " is ", given, ", expected [",
                 axis_text(call, operand, operand.rows), ",",
                 axis_text(call, operand, operand.cols), "] because ", reason_text(call, operand))};
  }
  return {};
}

Status bias_shape(const Call& call) {
  if (call.bias_kind().has_value()) return {};
  const Operand& operand = *call.find(call.is_backward() ? "gBias" : "bias");
  const std::int64_t m = call.extent(Axis::M);
  const std::int64_t n = call.extent(Axis::N);
  std::string vectors = text("[1], [", n, "]");
  if (m != n) vectors += text(", [", m, "]");
  return {StatusCode::ShapeMismatch,
          text(operand.name, " is ", operand.tensor->desc.shape, ", expected ", vectors,
               ", [1,1], [1,", n, "] or [", m, ",1] because ", call.is_backward() ? "gY" : "Y",
               " is [", m, ",", n, "]")};
}

}  // namespace ai::validation::rules
