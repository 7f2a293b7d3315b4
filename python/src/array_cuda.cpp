#include <algorithm>
#include <charconv>

#include "array_sources.hpp"
#include "gil.hpp"
#include "pointer.hpp"
#include "status.hpp"

#if GE_PYTHON_WITH_CUDA
#include "cuda/api.hpp"
#include "cuda/error.hpp"
#endif

namespace ge_python {
namespace {

#if GE_PYTHON_WITH_CUDA
/// The protocol does not say which device it is. 0 where CUDA does not know the address: what uses
/// it will say so.
int device_index_of(const void* data) {
  const WithoutGil no_gil;
  const ai::cuda::Api& api = ai::cuda::runtime_api();
  int count = 0;
  const ai::Status counted =
      ai::cuda::to_status(api, api.get_device_count(&count), "cudaGetDeviceCount");
  if (!counted.ok() || count < 2 || data == nullptr) return 0;
  cudaPointerAttributes attributes{};
  const ai::Status known = ai::cuda::to_status(api, api.pointer_get_attributes(&attributes, data),
                                               "cudaPointerGetAttributes");
  return known.ok() && attributes.device > 0 ? attributes.device : 0;
}
#else
int device_index_of(const void*) {
  return 0;
}
#endif

/// Reads the dictionary that a __cuda_array_interface__ is.
class Reader {
 public:
  Reader(nb::handle object, const char* operand, nb::object said)
      : object_(object), operand_(operand), said_(std::move(said)) {
    if (!PyDict_Check(said_.ptr())) fail("is no dict");
  }

  [[noreturn]] void fail(const std::string& why) const {
    refuse(object_, operand_, "has a __cuda_array_interface__ that " + why);
  }

  /// The entry, null where it is absent or None.
  [[nodiscard]] nb::object optional(const char* key) const {
    PyObject* value = PyDict_GetItemString(said_.ptr(), key);  // borrowed
    return value == Py_None ? nb::object() : nb::borrow(value);
  }

  /// To be held while its items are read: their __index__ may take it from the dictionary.
  [[nodiscard]] nb::object tuple(const char* key) const {
    nb::object value = optional(key);
    if (!value.is_valid() || !PyTuple_Check(value.ptr())) {
      fail("has no tuple '" + std::string(key) + "'");
    }
    return value;
  }

  [[nodiscard]] std::int64_t integer(nb::handle tuple, int i, const char* key) const {
    const long long value = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), i));
    if (value != -1 || PyErr_Occurred() == nullptr) return value;
    PyErr_Clear();
    fail("has a '" + std::string(key) + "' of other values than 64-bit integers");
  }

  [[nodiscard]] std::string text(const char* key) const {
    const nb::object value = optional(key);
    const char* text =
        value.is_valid() && PyUnicode_Check(value.ptr()) ? PyUnicode_AsUTF8(value.ptr()) : nullptr;
    if (text != nullptr) return text;
    PyErr_Clear();
    fail("has no string '" + std::string(key) + "'");
  }

 private:
  nb::handle object_;
  const char* operand_;
  nb::object said_;
};

/// Sets the dtype by a typestr ("<f4") and returns the element's bytes.
std::int64_t set_dtype(Array& array, const std::string& typestr, const Reader& reader) {
  std::int64_t bytes = 0;
  const char* end = typestr.data() + typestr.size();
  if (typestr.size() < 3 || std::from_chars(typestr.data() + 2, end, bytes).ptr != end ||
      bytes < 1 || bytes > 1024) {
    reader.fail("has the 'typestr' \"" + typestr + "\"");
  }
  const std::string_view prefix = typestr[0] == '>' && bytes > 1 ? "big-endian " : "";
  switch (typestr[1]) {
    case 'f': set_dtype(array, Kind::Float, 8 * bytes, prefix); break;
    case 'i': set_dtype(array, Kind::Int, 8 * bytes, prefix); break;
    case 'u': set_dtype(array, Kind::UInt, 8 * bytes, prefix); break;
    case 'c': set_dtype(array, Kind::Complex, 8 * bytes, prefix); break;
    case 'b': set_dtype(array, Kind::Bool, 8 * bytes, prefix); break;
    default: array.dtype_name = "of typestr '" + typestr + "'";
  }
  return bytes;
}

void set_shape(Array& array, const Reader& reader) {
  const nb::object shape = reader.tuple("shape");
  array.rank = static_cast<int>(std::min<Py_ssize_t>(PyTuple_GET_SIZE(shape.ptr()), 1024));
  for (int i = 0; i < std::min(array.rank, Array::kMaxRank); ++i) {
    array.shape[static_cast<std::size_t>(i)] = reader.integer(shape, i, "shape");
  }
}

void set_strides(Array& array, const Reader& reader, std::int64_t bytes, const char* operand) {
  if (!reader.optional("strides").is_valid()) return set_compact(array);
  const nb::object strides = reader.tuple("strides");
  if (PyTuple_GET_SIZE(strides.ptr()) != array.rank) {
    reader.fail("has other numbers of strides and extents");
  }
  for (int i = 0; i < std::min(array.rank, Array::kMaxRank); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t stride = reader.integer(strides, i, "strides");
    if (stride % bytes != 0 && array.shape[at] > 1) {
      raise(ai::StatusCode::StrideMismatch,
            std::string(operand) + " has a stride of " + std::to_string(stride) +
                " bytes, expected a multiple of its element's " + std::to_string(bytes));
    }
    array.stride[at] = stride / bytes;
  }
}

void set_data(Array& array, const Reader& reader) {
  const nb::object data = reader.tuple("data");
  if (PyTuple_GET_SIZE(data.ptr()) != 2) reader.fail("has a 'data' that is no pair");
  const nb::handle address = PyTuple_GET_ITEM(data.ptr(), 0);
  if (!address.is_none()) {
    array.data = reinterpret_cast<void*>(pointer_of(address, "data of a __cuda_array_interface__"));
  }
  const int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data.ptr(), 1));
  if (read_only < 0) throw nb::python_error();
  array.read_only = read_only != 0;
}

}  // namespace

std::optional<Array> by_cuda_interface(nb::handle object, const char* operand, Hold hold) {
  nb::object said = nb::steal(PyObject_GetAttrString(object.ptr(), "__cuda_array_interface__"));
  if (!said.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) refuse_because(object, operand);
    PyErr_Clear();
    return std::nullopt;
  }
  const Reader reader(object, operand, std::move(said));
  if (reader.optional("mask").is_valid()) {
    raise(ai::StatusCode::Invalid, std::string(operand) + " is masked, expected no mask");
  }
  Array array;
  set_data(array, reader);
  set_shape(array, reader);
  set_strides(array, reader, set_dtype(array, reader.text("typestr"), reader), operand);
  array.device = ai::Device::CUDA;
  array.device_index = device_index_of(array.data);
  if (hold == Hold::Keep) array.owner = nb::borrow<nb::object>(object);
  return array;
}

}  // namespace ge_python
