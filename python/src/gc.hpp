#pragma once

#include <nanobind/nanobind.h>

namespace ge_python {

namespace nb = nanobind;

/// What Python's cycle collector asks of a bound class T: int T::traverse(visitproc, void*), which
/// visits the references that the object owns, and void T::clear(), which gives them up. Both run
/// with the GIL. For nb::type_slots.
template <typename T>
struct GcSlots {
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    return nb::inst_ptr<T>(self)->traverse(visit, arg);
  }

  static int clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<T>(self)->clear();
    return 0;
  }

  static inline const PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear)},
      {0, nullptr},
  };
};

/// Visits each object of a range.
template <typename Objects>
int visit_all(const Objects& objects, visitproc visit, void* arg) {
  for (const auto& object : objects) Py_VISIT(object.ptr());
  return 0;
}

}  // namespace ge_python
