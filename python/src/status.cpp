#include "status.hpp"

#include <nanobind/stl/string.h>

#include <array>

namespace ge_python {
namespace {

constexpr std::size_t kCodes = static_cast<std::size_t>(ai::StatusCode::CudaError) + 1;

// They live as long as the process: an exception may outlive the module.
std::array<PyObject*, kCodes> classes{};
PyObject* base_class = nullptr;

const char* doc_of(ai::StatusCode code) {
  switch (code) {
    case ai::StatusCode::Ok: return "Not an error.";
    case ai::StatusCode::Invalid:
      return "An argument has no meaning (NaN slope, null or misaligned pointer).";
    case ai::StatusCode::Unsupported:
      return "Meaningful, but not done by this build or on this device.";
    case ai::StatusCode::MissingInput: return "An operand that must be read was not given.";
    case ai::StatusCode::MissingOutput: return "An operand that must be written was not given.";
    case ai::StatusCode::DeviceMismatch:
      return "Operands, program and target do not live on one device.";
    case ai::StatusCode::DtypeMismatch: return "An element type that this operand cannot have.";
    case ai::StatusCode::LayoutMismatch: return "A layout that this operand cannot have.";
    case ai::StatusCode::ShapeMismatch: return "Extents that do not fit each other.";
    case ai::StatusCode::StrideMismatch:
      return "Strides that the operand cannot have (leading dimension < width, ...).";
    case ai::StatusCode::Overlap: return "An output shares memory with another operand.";
    case ai::StatusCode::OutOfMemory: return "Host or device memory ran out.";
    case ai::StatusCode::CaptureActive: return "The stream is being captured by the caller.";
    case ai::StatusCode::CaptureInvalidated:
      return "Something else broke the capture, also after retries.";
    case ai::StatusCode::CudaError:
      return "Any other error reported by CUDA or one of its libraries.";
  }
  return "";
}

nb::object new_class(const nb::module_& module, const char* name, const char* doc, nb::handle base,
                     nb::handle status) {
  const std::string full = nb::cast<std::string>(module.attr("__name__")) + "." + name;
  nb::dict attributes;
  attributes["status"] = status;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, base.ptr(), attributes.ptr());
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

}  // namespace

void check(const ai::Status& status) {
  if (!status.ok()) [[unlikely]]
    raise(status.code(), status.message());
}

void raise(ai::StatusCode code, std::string message) {
  const auto index = static_cast<std::size_t>(code);
  PyObject* type = index < kCodes ? classes[index] : nullptr;
  const std::string text = ai::Status(code, std::move(message)).to_string();
  // A step's name may be cut inside a character: a message is always made.
  nb::object shown =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (shown.is_valid()) PyErr_SetObject(type != nullptr ? type : base_class, shown.ptr());
  throw nb::python_error();
}

void refuse_type(std::string_view name, nb::handle object, std::string_view expected) {
  throw nb::type_error((std::string(name) + " is of type " + Py_TYPE(object.ptr())->tp_name +
                        ", expected " + std::string(expected))
                           .c_str());
}

void bind_status(nb::module_& module) {
  nb::enum_<ai::StatusCode> codes(module, "StatusCode",
                                  "Why a call failed: one code per class of mistake.");
  for (std::size_t i = 0; i < kCodes; ++i) {
    const auto code = static_cast<ai::StatusCode>(i);
    codes.value(ai::to_string(code), code, doc_of(code));
  }
  const nb::object base = new_class(
      module, "GemmError",
      "What the library refuses or fails at. `status` is its StatusCode, each code has a subclass "
      "of its name, and the text starts with that name.",
      PyExc_RuntimeError, nb::cast(ai::StatusCode::Invalid));
  base_class = nb::object(base).release().ptr();
  module.attr("GemmError") = base;
  for (std::size_t i = 1; i < kCodes; ++i) {
    const auto code = static_cast<ai::StatusCode>(i);
    const nb::object made =
        new_class(module, ai::to_string(code), doc_of(code), base, nb::cast(code));
    classes[i] = nb::object(made).release().ptr();
    module.attr(ai::to_string(code)) = made;
  }
}

}  // namespace ge_python
