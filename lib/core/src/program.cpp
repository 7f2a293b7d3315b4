#include "ai/program.hpp"

#include <new>
#include <utility>

#include "core/program_rules.hpp"

namespace ai {
namespace {

std::vector<MemoryRange> symbolic_writes(const std::vector<Operand>& operands) {
  std::vector<MemoryRange> ranges;
  for (const Operand& operand : operands) {
    if (operand.is_written && symbolic::is_symbolic(operand.tensor->data)) {
      ranges.push_back(range_of(*operand.tensor));
    }
  }
  return ranges;
}

/// Room for `count` more, growing as push_back does: afterwards appending cannot fail.
template <typename T>
void reserve_more(std::vector<T>& values, std::size_t count) {
  if (values.capacity() - values.size() >= count) return;
  values.reserve(2 * values.size() + count);
}

/// Appends the item and what it writes, or (std::bad_alloc) neither.
template <typename Item>
void commit(std::vector<Program::Item>& items, Item&& item, std::vector<MemoryRange>& written,
            const std::vector<MemoryRange>& writes) {
  reserve_more(written, writes.size());
  items.emplace_back(std::forward<Item>(item));
  written.insert(written.end(), writes.begin(), writes.end());
}

}  // namespace

Status Program::add(const GemmPlan& plan) noexcept try {
  const std::vector<Operand> operands = operands_of(plan);
  if (items_.empty()) {
    device_ = plan.device();
    device_index_ = plan.device_index();
  }
  AI_RETURN_IF_ERROR(program_rules::one_device(operands, device_, device_index_));
  AI_RETURN_IF_ERROR(
      program_rules::temporaries_in_order(operands, temporaries_, written_temporaries_));
  commit(items_, plan, written_temporaries_, symbolic_writes(operands));
  return {};
} catch (const std::bad_alloc&) {
  return {StatusCode::OutOfMemory, {}};
}

Status Program::add(UserStep step) noexcept try {
  AI_RETURN_IF_ERROR(program_rules::well_formed(step));
  const std::vector<Operand> operands = program_rules::operands_of(step);
  if (items_.empty()) {
    device_ = operands.front().tensor->device;
    device_index_ = operands.front().tensor->device_index;
  }
  AI_RETURN_IF_ERROR(program_rules::one_device(operands, device_, device_index_));
  AI_RETURN_IF_ERROR(
      program_rules::temporaries_in_order(operands, temporaries_, written_temporaries_));
  // `operands` points into the step: what is needed of it is taken before the step moves.
  const std::vector<MemoryRange> writes = symbolic_writes(operands);
  commit(items_, std::move(step), written_temporaries_, writes);
  return {};
} catch (const std::bad_alloc&) {
  return {StatusCode::OutOfMemory, {}};
}

Status Program::copy_in(const Tensor& host, const Tensor& device) noexcept {
  return add_copy({host, device, true});
}

Status Program::copy_out(const Tensor& device, const Tensor& host) noexcept {
  return add_copy({device, host, false});
}

Status Program::add_copy(const CopyStep& copy) noexcept try {
  AI_RETURN_IF_ERROR(program_rules::well_formed(copy));
  const std::vector<Operand> operands = program_rules::operands_of(copy);
  if (items_.empty()) {
    device_ = copy.device().device;
    device_index_ = copy.device().device_index;
  }
  const Operand& on_device = operands[copy.in ? 1 : 0];
  AI_RETURN_IF_ERROR(program_rules::one_device({on_device}, device_, device_index_));
  AI_RETURN_IF_ERROR(
      program_rules::temporaries_in_order(operands, temporaries_, written_temporaries_));
  commit(items_, copy, written_temporaries_, symbolic_writes(operands));
  return {};
} catch (const std::bad_alloc&) {
  return {StatusCode::OutOfMemory, {}};
}

Result<Tensor> Program::temporary(const TensorDesc& desc, Device device, int device_index) noexcept
    try {
  AI_RETURN_IF_ERROR(program_rules::temporary(desc));
  Tensor tensor{nullptr, desc, device, device_index};
  const Extents& shape = desc.shape;
  const bool is_matrix = shape.rank() == 2;
  tensor.desc.stride = is_matrix ? Extents{shape[1], 1} : Extents{1};
  const std::int64_t count = is_matrix ? shape[0] * shape[1] : shape[0];
  reserve_more(temporaries_, 1);
  tensor.data = symbolic::allocate(static_cast<std::size_t>(count) * size_of(desc.dtype));
  temporaries_.push_back(tensor);
  return tensor;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

std::vector<Operand> operands_of(const GemmPlan& plan) {
  std::vector<Operand> operands;
  const auto read = [&](const char* name, const Tensor& tensor) {
    operands.push_back({name, &tensor, true, false});
  };
  const auto written = [&](const char* name, const Tensor& tensor) {
    operands.push_back({name, &tensor, false, true});
  };
  const GemmAttrs& attrs = plan.attrs();
  const bool has_product = attrs.alpha != 0.0F;
  if (plan.direction() == GemmPlan::Direction::Forward) {
    const GemmForward& call = plan.forward();
    if (has_product) read("A", call.A);
    if (has_product) read("B", call.B);
    if (call.C && attrs.beta != 0.0F) read("C", *call.C);
    if (call.bias) read("bias", *call.bias);
    written("Y", call.Y);
    if (call.Z) written("Z", *call.Z);
    return operands;
  }
  const GemmBackward& call = plan.backward();
  if (call.gB && has_product) read("A", call.A);
  if (call.gA && has_product) read("B", call.B);
  read("gY", call.gY);
  if (call.Z && attrs.act != ActKind::None) read("Z", *call.Z);
  const auto gradient = [&](const char* name, const std::optional<Gradient>& grad) {
    if (!grad) return;
    operands.push_back({name, &grad->tensor, grad->mode == GradMode::Accumulate, true});
  };
  gradient("gA", call.gA);
  gradient("gB", call.gB);
  gradient("gC", call.gC);
  gradient("gBias", call.gBias);
  return operands;
}

std::vector<Tensor> inputs_of(const GemmPlan& plan) {
  std::vector<Tensor> inputs;
  for (const Operand& operand : operands_of(plan)) {
    if (operand.is_read) inputs.push_back(*operand.tensor);
  }
  return inputs;
}

std::vector<Tensor> outputs_of(const GemmPlan& plan) {
  std::vector<Tensor> outputs;
  for (const Operand& operand : operands_of(plan)) {
    if (operand.is_written) outputs.push_back(*operand.tensor);
  }
  return outputs;
}

}  // namespace ai
