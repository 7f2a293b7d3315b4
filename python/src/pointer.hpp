#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace ge_python {

namespace nb = nanobind;

/// An address or a handle given as an int (or another type with __index__). TypeError for bool and
/// for types that are no integer; Invalid for a negative one or one beyond 64 bits. Errors call it
/// `name`.
[[nodiscard]] std::uintptr_t pointer_of(nb::handle object, const char* name);

}  // namespace ge_python
