#pragma once

#include <nanobind/nanobind.h>

#include "tensor.hpp"

namespace ge_python {

/// What NumPy's `__array_interface__` (host memory) or `__cuda_array_interface__` (version 3, CUDA
/// memory) gives; AttributeError where `device` is not the tensor's or its dtype has no typestr
/// (BF16).
[[nodiscard]] nb::dict array_interface(const Tensor& tensor, ai::Device device);

/// A NumPy array over the same memory, which keeps `self`.
[[nodiscard]] nb::object numpy_view(nb::handle self);

/// A DLPack capsule over the same memory, which keeps `self`; versioned if the caller knows
/// version 1. Nothing is synchronised. BufferError for what DLPack lets no exporter do silently: a
/// copy, another device, read-only memory for a caller that cannot be told.
[[nodiscard]] nb::object dlpack_capsule(nb::handle self, nb::handle stream, nb::handle max_version,
                                        nb::handle dl_device, nb::handle copy);
[[nodiscard]] nb::tuple dlpack_device(const Tensor& tensor);

}  // namespace ge_python
