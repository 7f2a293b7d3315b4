#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <utility>

#include "ai/status.hpp"

namespace ge_python {

namespace nb = nanobind;

/// Raises the exception class of `status`'s code, with the text of Status::to_string() and the
/// code as `.status`, unless it is ok. Needs the GIL.
void check(const ai::Status& status);
[[noreturn]] void raise(ai::StatusCode code, std::string message);
/// TypeError "`name` is of type T, expected `expected`", T being the type of `object`.
[[noreturn]] void refuse_type(std::string_view name, nb::handle object, std::string_view expected);

/// The value of `result`, or its exception.
template <typename T>
[[nodiscard]] T take(ai::Result<T> result) {
  check(result.status());
  return std::move(result).value();
}

/// StatusCode, GemmError(RuntimeError) and a subclass for each code.
void bind_status(nb::module_& module);

}  // namespace ge_python
