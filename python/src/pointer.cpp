#include "pointer.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "status.hpp"

namespace ge_python {

std::uintptr_t pointer_of(nb::handle object, const char* name) {
  static_assert(sizeof(std::uintptr_t) == sizeof(unsigned long long));
  if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr())) {
    refuse_type(name, object, "an int that holds an address");
  }
  nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const unsigned long long value = PyLong_AsUnsignedLongLong(index.ptr());
  if (value != static_cast<unsigned long long>(-1) || !PyErr_Occurred()) return value;
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) throw nb::python_error();
  PyErr_Clear();
  raise(ai::StatusCode::Invalid, std::string(name) + " is " + nb::repr(index).c_str() +
                                     ", expected an address of at most 64 bits");
}

std::string text_of(nb::handle str) {
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(str.ptr(), &size)) {
    return {text, static_cast<std::size_t>(size)};
  }
  PyErr_Clear();
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(str.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

}  // namespace ge_python
