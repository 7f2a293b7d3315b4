#include "operand.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "status.hpp"
#include "tensor.hpp"
#include "tensor_desc.hpp"

namespace ge_python {
namespace {

ai::DType dtype_of(const Array& array, const char* name, const char* expected) {
  if (array.dtype) return *array.dtype;
  raise(ai::StatusCode::DtypeMismatch,
        std::string(name) + " is " + array.dtype_name + ", expected " + expected);
}

void check_writable(bool read_only, const char* name, Use use) {
  if (use == Use::Read || !read_only) return;
  raise(ai::StatusCode::Invalid,
        std::string(name) + " is read-only, expected memory that may be written");
}

void check_rank(const Array& array, const char* name, const char* expected) {
  if (array.rank <= Array::kMaxRank) return;
  raise(ai::StatusCode::ShapeMismatch,
        std::string(name) + " is of rank " + std::to_string(array.rank) + ", expected " + expected);
}

ai::Tensor tensor_of(const Array& array, ai::DType dtype) {
  ai::Tensor tensor;
  tensor.data = array.data;
  tensor.desc.dtype = dtype;
  tensor.desc.shape = leading(array.shape, array.rank);
  tensor.desc.stride = leading(array.stride, array.rank);
  tensor.device = array.device;
  tensor.device_index = array.device_index;
  return tensor;
}

Operand operand_of(nb::handle object, const char* name, Use use, Hold hold, const char* dtypes,
                   const char* ranks) {
  if (const Tensor* given = tensor_in(object)) {
    check_writable(given->read_only, name, use);
    return {given->tensor, false,
            hold == Hold::Keep ? nb::borrow<nb::object>(object) : nb::object(), given->read_only};
  }
  Array array = array_of(object, name, hold);
  const ai::DType dtype = dtype_of(array, name, dtypes);
  check_rank(array, name, ranks);
  check_writable(array.read_only, name, use);
  return {tensor_of(array, dtype), false, std::move(array.owner), array.read_only};
}

bool has_unit_rows(const ai::TensorDesc& desc) {
  return desc.shape[0] <= 0 || desc.shape[1] <= 1 || desc.stride[1] == 1;
}

}  // namespace

std::optional<ai::Tensor> transpose_of(const ai::Tensor& matrix) {
  const ai::TensorDesc& desc = matrix.desc;
  if (desc.layout != ai::Layout::RowMajor || desc.shape.rank() != 2 || desc.stride.rank() != 2) {
    return std::nullopt;
  }
  if (desc.shape[0] > 1 && desc.shape[1] > 0 && desc.stride[0] != 1) return std::nullopt;
  ai::Tensor turned = matrix;
  turned.desc.shape = {desc.shape[1], desc.shape[0]};
  turned.desc.stride = {desc.stride[1], 1};
  return turned;
}

Operand matrix_operand(nb::handle object, const char* name, Use use, Hold hold,
                       bool may_transpose) {
  Operand operand = operand_of(object, name, use, hold, "float32", "a matrix");
  if (!may_transpose || operand.tensor.desc.shape.rank() != 2 ||
      has_unit_rows(operand.tensor.desc)) {
    return operand;
  }
  if (const std::optional<ai::Tensor> turned = transpose_of(operand.tensor)) {
    operand.tensor = *turned;
    operand.transposed = true;
  }
  return operand;
}

Operand bias_operand(nb::handle object, const char* name, Use use, Hold hold) {
  Operand operand = operand_of(object, name, use, hold, "float32", "rank 1 or 2");
  ai::TensorDesc& desc = operand.tensor.desc;
  if (desc.shape.rank() == 0) {
    desc.shape = {1};
    desc.stride = {1};
  }
  return operand;
}

Operand step_operand(nb::handle object, const char* name, Use use, Hold hold) {
  return operand_of(object, name, use, hold, "float32, float16, bfloat16, int32 or int8",
                    "at most 4");
}

}  // namespace ge_python
