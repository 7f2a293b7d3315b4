#include <new>

#include "ai/gemm.hpp"
#include "core/validate.hpp"

namespace ai {
namespace {

using validation::Axis;
using validation::Call;

void normalise(const Call& call, const char* name, Tensor& tensor) {
  tensor = call.normalised(*call.find(name));
}

void normalise(const Call& call, const char* name, std::optional<Tensor>& tensor) {
  if (tensor) normalise(call, name, *tensor);
}

void normalise(const Call& call, const char* name, std::optional<Gradient>& gradient) {
  if (gradient) normalise(call, name, gradient->tensor);
}

}  // namespace

Result<GemmPlan> plan_forward(const GemmForward& call) noexcept try {
  const Call checked(call);
  AI_RETURN_IF_ERROR(validate(checked));
  GemmPlan plan;
  plan.direction_ = GemmPlan::Direction::Forward;
  plan.m_ = checked.extent(Axis::M);
  plan.n_ = checked.extent(Axis::N);
  plan.k_ = checked.extent(Axis::K);
  plan.bias_kind_ = checked.bias_kind().value_or(BiasKind::None);
  plan.forward_ = call;
  normalise(checked, "A", plan.forward_.A);
  normalise(checked, "B", plan.forward_.B);
  normalise(checked, "C", plan.forward_.C);
  normalise(checked, "bias", plan.forward_.bias);
  normalise(checked, "Y", plan.forward_.Y);
  normalise(checked, "Z", plan.forward_.Z);
  return plan;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

Result<GemmPlan> plan_backward(const GemmBackward& call) noexcept try {
  const Call checked(call);
  AI_RETURN_IF_ERROR(validate(checked));
  GemmPlan plan;
  plan.direction_ = GemmPlan::Direction::Backward;
  plan.m_ = checked.extent(Axis::M);
  plan.n_ = checked.extent(Axis::N);
  plan.k_ = checked.extent(Axis::K);
  plan.bias_kind_ = checked.bias_kind().value_or(BiasKind::None);
  plan.backward_ = call;
  normalise(checked, "A", plan.backward_.A);
  normalise(checked, "B", plan.backward_.B);
  normalise(checked, "C", plan.backward_.C);
  normalise(checked, "gY", plan.backward_.gY);
  normalise(checked, "Z", plan.backward_.Z);
  normalise(checked, "gA", plan.backward_.gA);
  normalise(checked, "gB", plan.backward_.gB);
  normalise(checked, "gC", plan.backward_.gC);
  normalise(checked, "gBias", plan.backward_.gBias);
  return plan;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

}  // namespace ai
