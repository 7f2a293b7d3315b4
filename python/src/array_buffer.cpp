#include <algorithm>

#include "array_sources.hpp"
#include "status.hpp"

namespace ge_python {
namespace {

/// A format of the struct module: an optional byte order, then one letter.
void set_dtype(Array& array, const Py_buffer& view) {
  std::string_view format = view.format != nullptr ? view.format : "B";
  std::string_view prefix;
  if (!format.empty() && std::string_view("@=<>!").find(format[0]) != std::string_view::npos) {
    const bool big_endian = format[0] == '>' || format[0] == '!';
    if (big_endian && view.itemsize > 1) prefix = "big-endian ";
    format.remove_prefix(1);
  }
  const std::int64_t bits = 8 * static_cast<std::int64_t>(view.itemsize);
  const auto is_in = [&](std::string_view letters) {
    return format.size() == 1 && letters.find(format[0]) != std::string_view::npos;
  };
  if (is_in("efdg")) return set_dtype(array, Kind::Float, bits, prefix);
  if (is_in("bhilqn")) return set_dtype(array, Kind::Int, bits, prefix);
  if (is_in("BHILQN")) return set_dtype(array, Kind::UInt, bits, prefix);
  if (is_in("?")) return set_dtype(array, Kind::Bool, bits, prefix);
  if (format == "Zf" || format == "Zd" || format == "Zg") {
    return set_dtype(array, Kind::Complex, bits, prefix);
  }
  array.dtype_name = "of format '" + std::string(format) + "'";
}

bool is_empty(const Py_buffer& view) {
  return view.shape != nullptr &&
         std::any_of(view.shape, view.shape + view.ndim, [](Py_ssize_t n) { return n == 0; });
}

void set_strides(Array& array, const Py_buffer& view, const char* operand) {
  if (view.strides == nullptr || view.itemsize <= 0) return set_compact(array);
  const bool empty = is_empty(view);
  for (int i = 0; i < std::min(view.ndim, Array::kMaxRank); ++i) {
    const Py_ssize_t bytes = view.strides[i];
    if (bytes % view.itemsize != 0 && view.shape[i] > 1 && !empty) {
      raise(ai::StatusCode::StrideMismatch,
            std::string(operand) + " has a stride of " + std::to_string(bytes) +
                " bytes, expected a multiple of its element's " + std::to_string(view.itemsize));
    }
    array.stride[static_cast<std::size_t>(i)] = bytes / view.itemsize;
  }
}

Array array_of_buffer(const Py_buffer& view, const char* operand) {
  Array array;
  array.data = view.buf;
  array.rank = view.ndim;
  for (int i = 0; i < std::min(view.ndim, Array::kMaxRank); ++i) {
    array.shape[static_cast<std::size_t>(i)] = view.shape[i];
  }
  set_strides(array, view, operand);
  set_dtype(array, view);
  array.read_only = view.readonly != 0;
  return array;
}

/// False where the exporter cannot describe this memory; another way may.
bool pass_refusal() {
  for (PyObject* kind : {PyExc_BufferError, PyExc_ValueError, PyExc_TypeError}) {
    if (!PyErr_ExceptionMatches(kind)) continue;
    PyErr_Clear();
    return true;
  }
  return false;
}

}  // namespace

// While the memory is lent, its owner (a bytearray, an array.array) cannot move it.
std::optional<Array> by_buffer(nb::handle object, const char* operand) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return std::nullopt;
  nb::object memory = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!memory.is_valid()) {
    if (pass_refusal()) return std::nullopt;
    throw nb::python_error();
  }
  const Py_buffer& view = *PyMemoryView_GET_BUFFER(memory.ptr());
  if (view.suboffsets != nullptr) return std::nullopt;
  Array array = array_of_buffer(view, operand);
  array.owner = std::move(memory);
  return array;
}

}  // namespace ge_python
