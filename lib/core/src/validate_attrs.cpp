#include <cmath>

#include "core/text.hpp"
#include "core/validate_rules.hpp"

namespace ai::validation::rules {
namespace {

Status finite(const char* name, float value) {
  if (std::isfinite(value)) return {};
  return {StatusCode::Invalid, text(name, " is ", value, ", expected a finite number")};
}

bool is_missing(const Operand& operand) {
  return operand.tensor->data == nullptr && operand.tensor->desc.shape.rank() == 0;
}

}  // namespace

Status act(const Call& call) {
  const int value = static_cast<int>(call.attrs().act);
  if (value >= 0 && value <= static_cast<int>(ActKind::Tanh)) return {};
  return {StatusCode::Invalid, text("act is ", value, ", expected one of ActKind")};
}

Status precision(const Call& call) {
  if (call.attrs().precision == Precision::F32) return {};
  return {StatusCode::Unsupported, text("precision is ", static_cast<int>(call.attrs().precision),
                                        ", expected Precision::F32")};
}

Status alpha(const Call& call) {
  return finite("alpha", call.attrs().alpha);
}

Status beta(const Call& call) {
  return finite("beta", call.attrs().beta);
}

Status slope(const Call& call) {
  if (call.attrs().act != ActKind::LeakyReLU) return {};
  return finite("leaky_slope", call.attrs().leaky_slope);
}

Status grad_mode(const Call& call) {
  for (const Operand& operand : call.operands()) {
    if (operand.mode == nullptr || *operand.mode == GradMode::Overwrite ||
        *operand.mode == GradMode::Accumulate) {
      continue;
    }
    return {StatusCode::Invalid, text(operand.name, " has mode ", static_cast<int>(*operand.mode),
                                      ", expected GradMode::Overwrite or Accumulate")};
  }
  return {};
}

Status required(const Call& call) {
  for (const char* name : {"A", "B", "Y", "gY"}) {
    const Operand* operand = call.find(name);
    if (operand == nullptr || !is_missing(*operand)) continue;
    const bool written = operand->use == Use::Written;
    return {written ? StatusCode::MissingOutput : StatusCode::MissingInput,
            text(name, " is not given, expected a matrix")};
  }
  return {};
}

Status with_bias(const Call& call) {
  if (call.is_backward() || !call.attrs().with_bias || call.find("bias") != nullptr) return {};
  return {StatusCode::MissingInput, "bias is not given, expected one because with_bias is set"};
}

Status save_z(const Call& call) {
  if (call.is_backward() || !call.attrs().save_z || call.find("Z") != nullptr) return {};
  return {StatusCode::MissingOutput, "Z is not given, expected one because save_z is set"};
}

Status forward_c(const Call& call) {
  const float beta = call.attrs().beta;
  if (call.is_backward() || beta == 0.0F || call.find("C") != nullptr) return {};
  return {StatusCode::MissingInput, text("C is not given, expected one because beta is ", beta)};
}

Status backward_c(const Call& call) {
  if (call.find("gC") == nullptr || call.find("C") != nullptr) return {};
  return {StatusCode::MissingInput,
          "C is not given, expected its description because gC is asked for"};
}

Status backward_z(const Call& call) {
  const ActKind kind = call.attrs().act;
  if (!call.is_backward() || kind == ActKind::None || call.find("Z") != nullptr) return {};
  return {StatusCode::MissingInput,
          text("Z is not given, expected the one saved by forward because "
               "act is ",
               to_string(kind))};
}

Status any_gradient(const Call& call) {
  if (!call.is_backward()) return {};
  for (const Operand& operand : call.operands()) {
    if (operand.use == Use::Written) return {};
  }
  return {StatusCode::MissingOutput, "no gradient is given, expected gA, gB, gC or gBias"};
}

}  // namespace ai::validation::rules
