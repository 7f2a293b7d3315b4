#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>

#include "ai/gemm.hpp"
#include "array.hpp"
#include "held.hpp"

namespace ge_python {

namespace nb = nanobind;

/// Python's arguments for a forward call; None or a null handle: absent.
struct ForwardArguments {
  nb::handle A = {}, B = {}, C = {}, bias = {}, Y = {}, Z = {};
};
struct BackwardArguments {
  nb::handle A = {}, B = {}, C = {}, gY = {}, Z = {}, gA = {}, gB = {}, gC = {}, gBias = {};
};

/// A call over the arguments' memory, with what keeps that alive as Hold says.
template <typename Call>
struct BoundCall {
  Call call = {};
  std::array<HeldOwner, 9> owners = {};
};

/// A and B may be given transposed by their strides: attrs' flags are turned over then. gA and gB
/// are stored as A and B are, so they may too, and a gradient whose layout differs from its
/// operand's is a LayoutMismatch that names it. What is absent or does not fit otherwise is left to
/// plan_forward and plan_backward.
[[nodiscard]] BoundCall<ai::GemmForward> forward_call(const ForwardArguments& arguments,
                                                      const ai::GemmAttrs& attrs, Hold hold);
[[nodiscard]] BoundCall<ai::GemmBackward> backward_call(const BackwardArguments& arguments,
                                                        const ai::GemmAttrs& attrs, Hold hold);

/// Makes the named gradients of `call` add to what their tensors hold. `names`: an iterable of
/// "gA", "gB", "gC" and "gBias", one of them, or None. Invalid for another name; MissingOutput for
/// a gradient that the call does not have; TypeError for anything that is no name.
void accumulate(ai::GemmBackward& call, nb::handle names);

/// GemmAttrs of Python's keywords; `act` as activation_of takes it.
[[nodiscard]] ai::GemmAttrs make_attrs(bool trans_a, bool trans_b, bool with_bias, bool save_z,
                                       nb::handle act, float leaky_slope, float alpha, float beta);

/// GemmAttrs.
void bind_attrs(nb::module_& module);

}  // namespace ge_python
