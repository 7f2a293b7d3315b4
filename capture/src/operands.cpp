#include "capture/lowering.hpp"

namespace ai::detail {
namespace {

std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.desc.shape.rank(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(tensor.desc.shape[i]);
  }
  return text + "]";
}

}  // namespace

std::vector<NamedTensor> operands_of(const Program::Item& item) {
  std::vector<NamedTensor> operands;
  if (const auto* user = std::get_if<UserStep>(&item)) {
    for (std::size_t i = 0; i < user->reads.size(); ++i) {
      operands.push_back({"reads[" + std::to_string(i) + "]", user->reads[i], false});
    }
    for (std::size_t i = 0; i < user->writes.size(); ++i) {
      operands.push_back({"writes[" + std::to_string(i) + "]", user->writes[i], true});
    }
    return operands;
  }
  if (const auto* copy = std::get_if<CopyStep>(&item)) {
    return {{copy->in ? "host" : "device", copy->from, false},
            {copy->in ? "device" : "host", copy->to, true}};
  }
  for (const Operand& operand : ai::operands_of(std::get<GemmPlan>(item))) {
    operands.push_back({operand.name, *operand.tensor, operand.is_written});
  }
  return operands;
}

std::string name_of(const CopyStep& copy) {
  return (copy.in ? "copy_in " : "copy_out ") + shape_of(copy.from);
}

std::string name_of(const Program::Item& item) {
  if (const auto* user = std::get_if<UserStep>(&item)) return "step '" + user->name + "'";
  if (const auto* copy = std::get_if<CopyStep>(&item)) return name_of(*copy);
  const auto& plan = std::get<GemmPlan>(item);
  if (plan.direction() == GemmPlan::Direction::Forward) {
    return "forward Y" + shape_of(plan.forward().Y);
  }
  return "backward gY" + shape_of(plan.backward().gY);
}

std::vector<MemoryRange> temporaries_of(const Program& program) {
  return ranges_of(program.temporaries());
}

}  // namespace ai::detail
