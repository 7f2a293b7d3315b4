#pragma once

#include <nanobind/nanobind.h>

#include "ai/tensor.hpp"
#include "array.hpp"

namespace ge_python {

namespace nb = nanobind;

enum class Use { Read, Write };

/// An argument as an operand of a call.
struct Operand {
  ai::Tensor tensor = {};
  bool transposed = false;  ///< `tensor` is the argument's transpose
  nb::object owner = {};    ///< what keeps its memory alive (Hold::Keep)
};

/// A matrix: a Tensor as it is, or an array by its strides. With `may_transpose`, a 2-D array whose
/// outer stride is one and whose inner stride is not becomes its transpose, which is row-major. The
/// stride along an extent of one means nothing. Everything else is left to the plan's rules, which
/// name the operand. DtypeMismatch for a dtype without a name in ai::DType; Invalid for a read-only
/// array that is to be written.
[[nodiscard]] Operand matrix_operand(nb::handle object, const char* name, Use use, Hold hold,
                                     bool may_transpose);

/// A bias or its gradient: any of [1,1], [1], [], [1,N], [N], [M,1], strides as they are.
[[nodiscard]] Operand bias_operand(nb::handle object, const char* name, Use use, Hold hold);

/// Any shape up to 4-D and any dtype of ai::DType, for a user step or a copy.
[[nodiscard]] Operand step_operand(nb::handle object, const char* name, Use use, Hold hold);

}  // namespace ge_python
