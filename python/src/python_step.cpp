#include "python_step.hpp"

#include <cstdint>
#include <exception>
#include <span>
#include <utility>

#include "gil.hpp"
#include "status.hpp"
#include "tensor.hpp"

namespace ge_python {
namespace {

thread_local StepErrors* innermost = nullptr;

nb::list list_of(std::span<const ai::Tensor> tensors) {
  nb::list list;
  for (const ai::Tensor& tensor : tensors) list.append(Tensor{tensor, {}});
  return list;
}

std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  const char* const utf8 = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (utf8 != nullptr) return utf8;
  PyErr_Clear();
  return "<its text cannot be had>";
}

ai::Status failed(const nb::python_error& error) {
  const nb::handle value = error.value();
  StepErrors::keep(nb::borrow(value));
  const std::string type = nb::type_name(value.type()).c_str();
  const std::string text = text_of(value);
  // An error of this library's says its name itself.
  const bool named = text.starts_with(type.substr(type.rfind('.') + 1) + ":");
  return {ai::StatusCode::Invalid, "raised " + (named ? text : type + ": " + text)};
}

/// A callable that somebody else holds.
class BorrowedStep {
 public:
  explicit BorrowedStep(nb::handle fn) noexcept : fn_(fn) {}

  ai::Status operator()(const ai::StepContext& context) const {
    const WithGil locked;
    try {
      const nb::object arguments = nb::make_tuple(reinterpret_cast<std::uintptr_t>(context.stream),
                                                  list_of(context.reads), list_of(context.writes));
      if (!called(arguments).is_valid()) throw nb::python_error();
      return {};
    } catch (const nb::python_error& error) {
      return failed(error);
    }
  }

 private:
  /// What fn returns, null where it raises.
  [[nodiscard]] nb::object called(nb::handle arguments) const noexcept {
    try {
      return nb::steal(PyObject_CallObject(fn_.ptr(), arguments.ptr()));
    } catch (...) {  // Python ends, and would unwind this thread
      stop_thread();
    }
  }

  nb::handle fn_;
};

}  // namespace

ai::UserStep python_step(std::string name, std::vector<ai::Tensor> reads,
                         std::vector<ai::Tensor> writes, nb::handle fn) {
  const BorrowedStep step(fn);
  return {std::move(name), std::move(reads), std::move(writes), step, step};
}

StepErrors::StepErrors() noexcept : outer_(std::exchange(innermost, this)) {}

StepErrors::~StepErrors() {
  innermost = outer_;
}

void StepErrors::keep(nb::object error) noexcept {
  if (innermost != nullptr) innermost->error_ = std::move(error);
}

void StepErrors::raise(const ai::Status& status) const {
  if (!error_.is_valid()) {
    ge_python::check(status);
  } else if (PyObject_IsInstance(error_.ptr(), PyExc_Exception) == 0) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error_.ptr())), error_.ptr());
    throw nb::python_error();
  }
  try {
    ge_python::check(status);
  } catch (nb::python_error& error) {
    PyException_SetCause(error.value().ptr(), nb::object(error_).release().ptr());
    throw;
  }
  throw nb::python_error();  // not reached: check has thrown
}

}  // namespace ge_python
