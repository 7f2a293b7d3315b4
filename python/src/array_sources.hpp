#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

#include "array.hpp"

namespace ge_python {

/// The ways in which array_of asks, in its order. None where the object does not offer that way.
[[nodiscard]] std::optional<Array> by_exchange_table(nb::handle object, const char* operand,
                                                     Hold hold);
[[nodiscard]] std::optional<Array> by_buffer(nb::handle object, const char* operand);
[[nodiscard]] std::optional<Array> by_dlpack(nb::handle object, const char* operand, Hold hold);
[[nodiscard]] std::optional<Array> by_cuda_interface(nb::handle object, const char* operand,
                                                     Hold hold);

/// The attribute, or a null object where there is none. Other errors are thrown.
[[nodiscard]] nb::object attribute_of(nb::handle object, const char* name);

/// "numpy.ndarray".
[[nodiscard]] std::string type_name_of(nb::handle object);
/// "A (numpy.ndarray)".
[[nodiscard]] std::string described(nb::handle object, const char* operand);

/// Turns the Python error that is set into a TypeError about `operand` whose cause it is; errors
/// that are no news about the object (MemoryError, KeyboardInterrupt, ...) pass as they are.
[[noreturn]] void refuse_because(nb::handle object, const char* operand);
[[noreturn]] void refuse(nb::handle object, const char* operand, std::string_view why);

enum class Kind { Int, UInt, Float, Complex, Bool };
/// Sets `dtype`, or `dtype_name` where there is none ("float64").
void set_dtype(Array& array, Kind kind, std::int64_t bits, std::string_view prefix = {});

/// Sets the strides of compact row-major memory.
void set_compact(Array& array);

}  // namespace ge_python
