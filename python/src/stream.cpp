#include "stream.hpp"

#include "array_sources.hpp"
#include "pointer.hpp"
#include "status.hpp"

namespace ge_python {
namespace {

constexpr const char* kName = "stream";

ai::Stream stream_at(std::uintptr_t handle) {
  return reinterpret_cast<ai::Stream>(handle);
}

[[noreturn]] void refuse(nb::handle object) {
  refuse_type("stream", object,
              "None, an int, ctypes.c_void_p, a PyCapsule, or a stream of torch, CuPy or with "
              "__cuda_stream__");
}

/// What __cuda_stream__ says: (0, handle), by a method or, in its first version, a property.
ai::Stream by_protocol(nb::object said) {
  if (PyCallable_Check(said.ptr()) != 0) said = said();
  if (!PyTuple_Check(said.ptr()) || PyTuple_GET_SIZE(said.ptr()) < 2) {
    throw nb::type_error("stream: __cuda_stream__ gives no tuple, expected (0, handle)");
  }
  if (pointer_of(PyTuple_GET_ITEM(said.ptr(), 0), "stream's protocol version") != 0) {
    throw nb::type_error("stream: __cuda_stream__ is of a later version, expected 0");
  }
  return stream_at(pointer_of(PyTuple_GET_ITEM(said.ptr(), 1), kName));
}

/// Whether `object` is a ctypes.c_void_p. Nobody has one who has not imported ctypes.
bool is_void_pointer(nb::handle object) {
  PyObject* modules = PySys_GetObject("modules");  // borrowed
  PyObject* ctypes = modules != nullptr && PyDict_Check(modules)
                         ? PyDict_GetItemString(modules, "ctypes")
                         : nullptr;
  if (ctypes == nullptr) return false;
  const nb::object type = attribute_of(ctypes, "c_void_p");
  return type.is_valid() && nb::isinstance(object, type);
}

}  // namespace

ai::Stream stream_of(nb::handle object) {
  PyObject* raw = object.ptr();
  if (raw == nullptr || raw == Py_None) return nullptr;
  if (PyBool_Check(raw)) refuse(object);
  if (PyLong_Check(raw)) return stream_at(pointer_of(object, kName));
  if (PyCapsule_CheckExact(raw)) {
    void* pointer = PyCapsule_GetPointer(raw, PyCapsule_GetName(raw));
    if (pointer == nullptr) throw nb::python_error();
    return static_cast<ai::Stream>(pointer);
  }
  if (nb::object handle = attribute_of(object, "cuda_stream"); handle.is_valid()) {
    return stream_at(pointer_of(handle, kName));
  }
  if (nb::object said = attribute_of(object, "__cuda_stream__"); said.is_valid()) {
    return by_protocol(std::move(said));
  }
  // CuPy's events and pointers have a `ptr` too.
  if (nb::object handle = attribute_of(object, "ptr");
      handle.is_valid() && attribute_of(object, "wait_event").is_valid()) {
    return stream_at(pointer_of(handle, kName));
  }
  if (is_void_pointer(object)) {
    const nb::object value = attribute_of(object, "value");
    return value.is_none() ? nullptr : stream_at(pointer_of(value, kName));
  }
  if (PyIndex_Check(raw)) return stream_at(pointer_of(object, kName));
  refuse(object);
}

}  // namespace ge_python
