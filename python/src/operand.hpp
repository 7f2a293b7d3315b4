#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "ai/tensor.hpp"
#include "array.hpp"

namespace ge_python {

namespace nb = nanobind;

enum class Use { Read, Write };

/// An argument as an operand of a call.
struct Operand {
  ai::Tensor tensor = {};
  bool transposed = false;  ///< `tensor` is the argument's transpose
  nb::object owner = {};    ///< Array::owner
  bool read_only = false;
};

/// A Tensor or an array as a matrix. With `may_transpose`, one whose inner stride is not one
/// becomes its transpose where that is row-major. The stride along an extent of one means nothing.
/// Everything else is left to the plan's rules, which name the operand. DtypeMismatch for a dtype
/// without a name in ai::DType; Invalid for a read-only array that is to be written.
[[nodiscard]] Operand matrix_operand(nb::handle object, const char* name, Use use, Hold hold,
                                     bool may_transpose);

/// The row-major transpose of a row-major matrix over the same memory; none where its strides allow
/// none. A matrix with an extent of one may be both: [1,K] is also [K,1] transposed.
[[nodiscard]] std::optional<ai::Tensor> transpose_of(const ai::Tensor& matrix);

/// A bias or its gradient: any of [1,1], [1], [], [1,N], [N], [M,1], strides as they are.
[[nodiscard]] Operand bias_operand(nb::handle object, const char* name, Use use, Hold hold);

/// Any shape up to 4-D and any dtype of ai::DType, for a user step or a copy.
[[nodiscard]] Operand step_operand(nb::handle object, const char* name, Use use, Hold hold);

}  // namespace ge_python
