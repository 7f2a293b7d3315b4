#include "ai/program.hpp"

#include <new>
#include <utility>

#include "core/program_rules.hpp"

namespace ai {
namespace {

using program_rules::Operand;

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
  const std::vector<Operand> operands = program_rules::operands_of(plan);
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

std::vector<Tensor> inputs_of(const GemmPlan& plan) {
  std::vector<Tensor> inputs;
  for (const Operand& operand : program_rules::operands_of(plan)) {
    if (operand.is_read) inputs.push_back(*operand.tensor);
  }
  return inputs;
}

std::vector<Tensor> outputs_of(const GemmPlan& plan) {
  std::vector<Tensor> outputs;
  for (const Operand& operand : program_rules::operands_of(plan)) {
    if (operand.is_written) outputs.push_back(*operand.tensor);
  }
  return outputs;
}

}  // namespace ai
