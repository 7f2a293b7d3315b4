#include "capture/moved_item.hpp"

#include <utility>

#include "capture/bound_run.hpp"
#include "core/program_rules.hpp"

namespace ai::detail {
namespace {

/// Finds where tensors of one item go: those that begin where an operand of it did.
class Shifts {
 public:
  Shifts(const Blueprint& blueprint, std::span<const MovedOperand> operands)
      : blueprint_(blueprint), operands_(operands) {}

  void operator()(Tensor& tensor) const noexcept {
    for (const MovedOperand& moved : operands_) {
      if (blueprint_.operands[moved.index].tensor.data != tensor.data) continue;
      tensor.data = moved.to;
      return;
    }
  }
  void operator()(std::optional<Tensor>& tensor) const noexcept {
    if (tensor) (*this)(*tensor);
  }
  void operator()(std::optional<Gradient>& gradient) const noexcept {
    if (gradient) (*this)(gradient->tensor);
  }

 private:
  const Blueprint& blueprint_;
  std::span<const MovedOperand> operands_;
};

/// A plan holds a bias as a vector, which validation would take to run along N where M = N.
void tell_apart(Tensor& bias, BiasKind kind) noexcept {
  if (kind != BiasKind::PerM) return;
  bias.desc.shape = {bias.desc.shape[0], 1};
  bias.desc.stride = {bias.desc.stride[0], 1};
}

Result<GemmPlan> moved_plan(const GemmPlan& plan, const Shifts& shift) {
  if (plan.direction() == GemmPlan::Direction::Forward) {
    GemmForward call = plan.forward();
    shift(call.A);
    shift(call.B);
    shift(call.C);
    shift(call.bias);
    shift(call.Y);
    shift(call.Z);
    if (call.bias) tell_apart(*call.bias, plan.bias_kind());
    return plan_forward(call);
  }
  GemmBackward call = plan.backward();
  shift(call.A);
  shift(call.B);
  shift(call.C);
  shift(call.gY);
  shift(call.Z);
  shift(call.gA);
  shift(call.gB);
  shift(call.gC);
  shift(call.gBias);
  if (call.gBias) tell_apart(call.gBias->tensor, plan.bias_kind());
  return plan_backward(call);
}

Status check_copy(const CopyStep& copy, const Shifts& shift) {
  CopyStep moved = copy;
  shift(moved.from);
  shift(moved.to);
  return program_rules::well_formed(moved);
}

Status check_user(const Blueprint& blueprint, std::span<const MovedOperand> operands) {
  for (const MovedOperand& moved : operands) {
    const BoundOperand& operand = blueprint.operands[moved.index];
    Tensor tensor = operand.tensor;
    tensor.data = moved.to;
    AI_RETURN_IF_ERROR(
        program_rules::described({operand.name + " of " + operand.item, &tensor, true, false}));
  }
  return {};
}

/// Whether steps built for a plan's operands at one place can serve them at another.
bool serves(const std::vector<Slot>& slots, const std::vector<void*>& now) noexcept {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (alignment_of(now[i]) < alignment_of(slots[i].built)) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if ((now[i] == now[j]) != (slots[i].built == slots[j].built)) return false;
    }
  }
  return true;
}

}  // namespace

Result<MovedItem> move_item(const Blueprint& blueprint, std::size_t index,
                            std::span<const MovedOperand> operands) {
  const BoundItem& item = blueprint.items[index];
  const Shifts shift(blueprint, operands);
  MovedItem moved;
  moved.index = index;
  for (const Program::Item& part : item.parts) {
    if (const auto* plan = std::get_if<GemmPlan>(&part)) {
      Result<GemmPlan> valid = moved_plan(*plan, shift);
      if (!valid) {
        return Status(valid.status().code(), name_of(part) + ": " + valid.status().message());
      }
      moved.plans.push_back(std::move(*valid));
    } else if (const auto* copy = std::get_if<CopyStep>(&part)) {
      AI_RETURN_IF_ERROR(check_copy(*copy, shift));
    } else {
      AI_RETURN_IF_ERROR(check_user(blueprint, operands));
    }
  }

  moved.now.reserve(item.slots.size());
  for (const Slot& slot : item.slots) moved.now.push_back(slot.now);
  std::size_t next = 0;
  for (std::size_t i = 0; i < item.slots.size() && next < operands.size(); ++i) {
    if (item.slots[i].operand == operands[next].index) moved.now[i] = operands[next++].to;
  }
  moved.addresses = item.storage;
  moved.keeps_steps = (moved.plans.empty() || serves(item.slots, moved.now)) &&
                      map_operands(item, moved.now, moved.addresses);
  return moved;
}

void place(BoundItem& item, const MovedItem& moved) noexcept {
  for (std::size_t i = 0; i < item.slots.size(); ++i) item.slots[i].now = moved.now[i];
  if (!moved.plans.empty()) {
    for (std::size_t i = 0; i < item.parts.size(); ++i) {
      std::get<GemmPlan>(item.parts[i]) = moved.plans[i];
    }
  } else if (auto* const copy = std::get_if<CopyStep>(&item.parts.front())) {
    copy->from.data = moved.now[0];
    copy->to.data = moved.now[1];
  } else {
    auto& user = std::get<UserStep>(item.parts.front());
    std::size_t slot = 0;
    for (Tensor& tensor : user.reads) tensor.data = moved.now[slot++];
    for (Tensor& tensor : user.writes) tensor.data = moved.now[slot++];
  }
}

Status make_steps_anew(Blueprint& blueprint, std::size_t index, Backend& backend) {
  BoundItem& item = blueprint.items[index];
  const bool is_run = item.is_run() || item.is_fused();
  AI_RETURN_IF_ERROR(is_run ? make_run_anew(item, blueprint.workshop, backend)
                            : lower_anew(item, blueprint.workshop, backend));
  for (Slot& slot : item.slots) slot.built = slot.now;
  return {};
}

}  // namespace ai::detail
