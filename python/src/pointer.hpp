#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace ge_python {

namespace nb = nanobind;

/// An address or a handle given as an int (or another type with __index__). TypeError for bool and
/// for types that are no integer; Invalid for a negative one or one beyond 64 bits. Errors call it
/// `name`.
[[nodiscard]] std::uintptr_t pointer_of(nb::handle object, const char* name);

/// The text of a str, in UTF-8; what that cannot hold is escaped.
[[nodiscard]] std::string text_of(nb::handle str);

}  // namespace ge_python
