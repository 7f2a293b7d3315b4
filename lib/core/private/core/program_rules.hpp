#pragma once

#include <string>
#include <vector>

#include "ai/gemm.hpp"
#include "ai/memory.hpp"
#include "ai/program.hpp"
#include "ai/status.hpp"

namespace ai::program_rules {

/// As ai::operands_of for a plan. May throw std::bad_alloc, as may everything below.
[[nodiscard]] std::vector<Operand> operands_of(const UserStep& step);
/// What is read, then what is written.
[[nodiscard]] std::vector<Operand> operands_of(const CopyStep& copy);

/// A tensor (any dtype) that is described as in a plan, over memory that can hold it.
[[nodiscard]] Status described(const Operand& operand);
/// A user step's own rules: a name, a function, tensors that are described as in a plan.
[[nodiscard]] Status well_formed(const UserStep& step);
/// A copy's own rules: tensors that are described as in a plan, one dtype and shape, no byte in
/// common; the host's side is Device::CPU and no temporary.
[[nodiscard]] Status well_formed(const CopyStep& copy);
/// Every operand lives on `device`:`index`.
[[nodiscard]] Status one_device(const std::vector<Operand>& operands, Device device, int index);
/// Symbolic operands lie within one of `temporaries`, and those that are read meet `written`.
[[nodiscard]] Status temporaries_in_order(const std::vector<Operand>& operands,
                                          const std::vector<Tensor>& temporaries,
                                          const std::vector<MemoryRange>& written);
/// The description of a temporary: rank 1 or 2, row-major, of a size that can exist.
[[nodiscard]] Status temporary(const TensorDesc& desc);

}  // namespace ai::program_rules
