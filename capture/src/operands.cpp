#include <algorithm>
#include <optional>

#include "capture/lowering.hpp"

namespace ai::detail {
namespace {

const Tensor& tensor_of(const Tensor& tensor) noexcept {
  return tensor;
}
const Tensor& tensor_of(const Gradient& gradient) noexcept {
  return gradient.tensor;
}

/// Collects the operands that the plan does read or write.
class Collector {
 public:
  explicit Collector(const GemmPlan& plan) : used_(inputs_of(plan)) {
    for (const Tensor& output : outputs_of(plan)) used_.push_back(output);
  }

  void add(const char* name, const Tensor& tensor) {
    const bool used = std::any_of(used_.begin(), used_.end(),
                                  [&](const Tensor& t) { return t.data == tensor.data; });
    if (used) operands.push_back({name, tensor});
  }
  template <typename Operand>
  void add(const char* name, const std::optional<Operand>& operand) {
    if (operand.has_value()) add(name, tensor_of(*operand));
  }

  std::vector<NamedTensor> operands;

 private:
  std::vector<Tensor> used_;
};

std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.desc.shape.rank(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(tensor.desc.shape[i]);
  }
  return text + "]";
}

}  // namespace

std::vector<NamedTensor> operands_of(const Program::Item& item) {
  if (const auto* user = std::get_if<UserStep>(&item)) {
    std::vector<NamedTensor> operands;
    for (std::size_t i = 0; i < user->reads.size(); ++i) {
      operands.push_back({"reads[" + std::to_string(i) + "]", user->reads[i]});
    }
    for (std::size_t i = 0; i < user->writes.size(); ++i) {
      operands.push_back({"writes[" + std::to_string(i) + "]", user->writes[i]});
    }
    return operands;
  }
  const auto& plan = std::get<GemmPlan>(item);
  Collector all(plan);
  if (plan.direction() == GemmPlan::Direction::Forward) {
    const GemmForward& call = plan.forward();
    all.add("A", call.A);
    all.add("B", call.B);
    all.add("C", call.C);
    all.add("bias", call.bias);
    all.add("Y", call.Y);
    all.add("Z", call.Z);
  } else {
    const GemmBackward& call = plan.backward();
    all.add("A", call.A);
    all.add("B", call.B);
    all.add("gY", call.gY);
    all.add("Z", call.Z);
    all.add("gA", call.gA);
    all.add("gB", call.gB);
    all.add("gC", call.gC);
    all.add("gBias", call.gBias);
  }
  return std::move(all.operands);
}

std::string name_of(const Program::Item& item) {
  if (const auto* user = std::get_if<UserStep>(&item)) return "step '" + user->name + "'";
  const auto& plan = std::get<GemmPlan>(item);
  if (plan.direction() == GemmPlan::Direction::Forward) {
    return "forward Y" + shape_of(plan.forward().Y);
  }
  return "backward gY" + shape_of(plan.backward().gY);
}

std::vector<MemoryRange> temporaries_of(const Program& program) {
  std::vector<MemoryRange> ranges;
  for (const Tensor& tensor : program.temporaries()) ranges.push_back(range_of(tensor));
  return ranges;
}

}  // namespace ai::detail
