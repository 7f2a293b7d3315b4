#pragma once

#include <nanobind/nanobind.h>

#include "ai/activation.hpp"
#include "ai/tensor.hpp"

namespace ge_python {

namespace nb = nanobind;

/// What Python knows as Tensor: the library's, and the object whose memory it borrows (none where
/// it was made of a raw pointer).
struct Tensor {
  ai::Tensor tensor = {};
  nb::object owner = {};
  nb::object memory = {};  ///< what `owner` lent (Array::owner), where that is more than itself
  bool read_only = false;  ///< refused as an output

  /// Any number of Tensors that own each other go without deep recursion.
  ~Tensor() {
    if (owner.is_valid()) release(owner);
  }
  static void release(nb::object& owner) noexcept;
};

/// The Tensor that `object` is, null for any other type. Costs no more than a comparison of types.
[[nodiscard]] const Tensor* tensor_in(nb::handle object);

/// The memory of an array as a Tensor that keeps it, without a copy; a Tensor is returned as it is.
/// Errors call it `name`.
[[nodiscard]] nb::object as_tensor(nb::handle object, const char* name);

/// ActKind, Device, DType, Layout, TensorDesc, Tensor, make_tensor_2d, make_tensor_1d, as_tensor.
void bind_tensor(nb::module_& module);

/// The activation that `object` names: an ActKind, its name in any case ("relu", "leaky_relu",
/// "LeakyReLU", "gelu_tanh", ...) or None. TypeError for other types, Invalid for other names.
[[nodiscard]] ai::ActKind activation_of(nb::handle object);

}  // namespace ge_python
