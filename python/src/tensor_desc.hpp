#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <string>

#include "ai/tensor.hpp"

namespace ge_python {

namespace nb = nanobind;

/// A sequence of at most four integers. TypeError where it is none, ShapeMismatch where it is
/// longer, Invalid for an integer beyond 64 bits; they call it `name`.
[[nodiscard]] ai::Extents extents_of(nb::handle values, const char* name);
/// The first `rank` of `values`, at most all of them.
[[nodiscard]] ai::Extents leading(const std::array<std::int64_t, ai::Extents::kMaxRank>& values,
                                  int rank);
[[nodiscard]] nb::tuple tuple_of(const ai::Extents& extents);

/// "dtype=F32, layout=RowMajor, shape=(2, 3), stride=(3, 1)".
[[nodiscard]] std::string text_of(const ai::TensorDesc& desc);

/// ActKind, Device, DType, Layout.
void bind_enums(nb::module_& module);
/// TensorDesc.
void bind_desc(nb::module_& module);

}  // namespace ge_python
