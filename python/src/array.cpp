#include "array.hpp"

#include <algorithm>
#include <string_view>

#include "array_sources.hpp"
#include "tensor.hpp"

namespace ge_python {
namespace {

std::array<std::int64_t, Array::kMaxRank> values_of(const ai::Extents& extents) {
  return {extents[0], extents[1], extents[2], extents[3]};
}

Array array_of_tensor(const Tensor& given, nb::handle object, Hold hold) {
  const ai::Tensor& tensor = given.tensor;
  Array array;
  array.data = tensor.data;
  array.device = tensor.device;
  array.device_index = tensor.device_index;
  array.dtype = tensor.desc.dtype;
  array.rank = tensor.desc.shape.rank();
  array.shape = values_of(tensor.desc.shape);
  array.stride = values_of(tensor.desc.stride);
  array.read_only = given.read_only;
  if (hold == Hold::Keep) array.owner = nb::borrow<nb::object>(object);
  return array;
}

}  // namespace

Array array_of(nb::handle object, const char* operand, Hold hold) {
  if (const Tensor* given = tensor_in(object)) return array_of_tensor(*given, object, hold);
  if (auto array = by_exchange_table(object, operand, hold)) return *std::move(array);
  if (auto array = by_buffer(object, operand)) return *std::move(array);
  if (!PyType_Check(object.ptr())) {  // a class has its instances' methods
    if (auto array = by_dlpack(object, operand, hold)) return *std::move(array);
    if (auto array = by_cuda_interface(object, operand, hold)) return *std::move(array);
  }
  refuse(object, operand, "is no Tensor and has no buffer, __dlpack__ or __cuda_array_interface__");
}

nb::object attribute_of(nb::handle object, const char* name) {
  nb::object value = nb::steal(PyObject_GetAttrString(object.ptr(), name));
  if (value.is_valid()) return value;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw nb::python_error();
  PyErr_Clear();
  return value;
}

std::string type_name_of(nb::handle object) {
  std::string name;
  for (const char* part : {"__module__", "__qualname__"}) {
    const nb::object value = nb::steal(PyObject_GetAttrString(object.type().ptr(), part));
    const char* text = value.is_valid() && PyUnicode_Check(value.ptr()) != 0
                           ? PyUnicode_AsUTF8(value.ptr())
                           : nullptr;
    PyErr_Clear();
    if (text == nullptr || std::string_view(text) == "builtins") continue;
    name += (name.empty() ? "" : ".") + std::string(text);
  }
  return name;
}

std::string described(nb::handle object, const char* operand) {
  return std::string(operand) + " (" + type_name_of(object) + ")";
}

void refuse_because(nb::handle object, const char* operand) {
  if (PyErr_Occurred() == nullptr) refuse(object, operand, "gives no access to its memory");
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
    throw nb::python_error();
  }
  nb::python_error cause;
  const nb::object text = nb::steal(PyObject_Str(cause.value().ptr()));
  const char* said = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  PyErr_Clear();  // an error that cannot say what it is
  const std::string_view whole = said != nullptr ? said : "?";
  const std::string line(whole.substr(0, whole.find('\n')));  // torch's go on with a C++ backtrace
  nb::raise_from(cause, PyExc_TypeError, "%s gives no access to its memory: %s",
                 described(object, operand).c_str(), line.c_str());
}

void refuse(nb::handle object, const char* operand, std::string_view why) {
  throw nb::type_error((described(object, operand) + " " + std::string(why)).c_str());
}

void set_dtype(Array& array, Kind kind, std::int64_t bits, std::string_view prefix) {
  if (prefix.empty()) {
    if (kind == Kind::Float && bits == 32) array.dtype = ai::DType::F32;
    if (kind == Kind::Float && bits == 16) array.dtype = ai::DType::F16;
    if (kind == Kind::Int && bits == 32) array.dtype = ai::DType::I32;
    if (kind == Kind::Int && bits == 8) array.dtype = ai::DType::I8;
    if (array.dtype) return;
  }
  constexpr const char* kNames[] = {"int", "uint", "float", "complex"};
  array.dtype_name = prefix;
  if (kind == Kind::Bool) {
    array.dtype_name += "bool";
  } else {
    array.dtype_name += kNames[static_cast<int>(kind)] + std::to_string(bits);
  }
}

void set_compact(Array& array) {
  std::uint64_t stride = 1;  // unsigned: absurd extents wrap, and the plan's rules refuse them
  for (int i = std::min(array.rank, Array::kMaxRank) - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    array.stride[at] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(array.shape[at]);
  }
}

}  // namespace ge_python
