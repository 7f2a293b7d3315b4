#include "call.hpp"

#include <nanobind/stl/string.h>

#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "operand.hpp"
#include "pointer.hpp"
#include "status.hpp"
#include "tensor.hpp"

namespace ge_python {
namespace {

using namespace nb::literals;

bool given(nb::handle object) {
  return object.is_valid() && !object.is_none();
}

ai::Extents reversed(const ai::Extents& extents) {
  return {extents[1], extents[0]};
}

/// Reads the arguments of one call into its operands.
class Reader {
 public:
  Reader(std::array<HeldOwner, 9>& owners, Hold hold) : owners_(owners), hold_(hold) {}

  void matrix(nb::handle object, const char* name, Use use, ai::Tensor& to) {
    if (given(object)) to = keep(matrix_operand(object, name, use, hold_, false));
  }
  void matrix(nb::handle object, const char* name, Use use, std::optional<ai::Tensor>& to) {
    if (given(object)) to = keep(matrix_operand(object, name, use, hold_, false));
  }
  /// A or B; whether the argument is the transpose of `to`.
  [[nodiscard]] bool factor(nb::handle object, const char* name, ai::Tensor& to) {
    if (!given(object)) return false;
    Operand operand = matrix_operand(object, name, Use::Read, hold_, true);
    const bool transposed = operand.transposed;
    to = keep(std::move(operand));
    return transposed;
  }
  void bias(nb::handle object, ai::GemmForward& call) {
    if (given(object)) call.bias = keep(bias_operand(object, "bias", Use::Read, hold_));
  }
  void gradients(const BackwardArguments& from, ai::GemmBackward& call) {
    if (given(from.gC)) call.gC = keep(matrix_operand(from.gC, "gC", Use::Write, hold_, false));
    if (given(from.gBias)) call.gBias = keep(bias_operand(from.gBias, "gBias", Use::Write, hold_));
  }
  /// gA or gB, stored as `factor` (A or B) is; of the two, the one that reads both ways gives way.
  void gradient_of(ai::Tensor& factor, bool& factor_transposed, const char* factor_name,
                   nb::handle object, const char* name, std::optional<ai::Gradient>& to) {
    if (!given(object)) return;
    Operand gradient = matrix_operand(object, name, Use::Write, hold_, true);
    if (gradient.transposed != factor_transposed && factor.desc.shape.rank() == 2) {
      check_given_shape(factor, factor_transposed, factor_name, gradient, name);
      if (const auto turned = transpose_of(gradient.tensor)) {
        gradient.tensor = *turned;
      } else if (const auto turned_factor = transpose_of(factor)) {
        factor = *turned_factor;
        factor_transposed = !factor_transposed;
      } else {
        refuse_layout(factor, factor_transposed, factor_name, gradient, name);
      }
    }
    to = keep(std::move(gradient));
  }

 private:
  [[nodiscard]] ai::Tensor keep(Operand&& operand) {
    owners_[count_++] = {operand.tensor.data, std::move(operand.owner)};
    return operand.tensor;
  }

  static void check_given_shape(const ai::Tensor& factor, bool factor_transposed,
                                const char* factor_name, const Operand& gradient,
                                const char* name) {
    const auto as_given = [](const ai::Tensor& tensor, bool transposed) {
      return transposed ? reversed(tensor.desc.shape) : tensor.desc.shape;
    };
    const ai::Extents shape = as_given(gradient.tensor, gradient.transposed);
    const ai::Extents wanted = as_given(factor, factor_transposed);
    if (shape == wanted) return;
    raise(ai::StatusCode::ShapeMismatch, ai::text(name, " is ", shape, ", expected ", wanted,
                                                  " because ", factor_name, " is ", wanted));
  }

  [[noreturn]] static void refuse_layout(const ai::Tensor& factor, bool factor_transposed,
                                         const char* factor_name, const Operand& gradient,
                                         const char* name) {
    const auto as_given = [](const ai::Tensor& tensor, bool transposed) {
      return transposed ? reversed(tensor.desc.stride) : tensor.desc.stride;
    };
    raise(ai::StatusCode::LayoutMismatch,
          ai::text(name, " has strides ", as_given(gradient.tensor, gradient.transposed),
                   ", expected a stride of 1 along its ", factor_transposed ? "columns" : "rows",
                   ", as ", factor_name, " has (", as_given(factor, factor_transposed),
                   "), because ", name, " is stored as ", factor_name, " is"));
  }

  std::array<HeldOwner, 9>& owners_;
  Hold hold_;
  std::size_t count_ = 0;
};

std::string repr(const ai::GemmAttrs& attrs) {
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  return ai::text("GemmAttrs(trans_a=", flag(attrs.trans_a), ", trans_b=", flag(attrs.trans_b),
                  ", with_bias=", flag(attrs.with_bias), ", save_z=", flag(attrs.save_z),
                  ", act=\"", ai::to_string(attrs.act), "\", leaky_slope=", attrs.leaky_slope,
                  ", alpha=", attrs.alpha, ", beta=", attrs.beta, ")");
}

}  // namespace

BoundCall<ai::GemmForward> forward_call(const ForwardArguments& arguments,
                                        const ai::GemmAttrs& attrs, Hold hold) {
  BoundCall<ai::GemmForward> bound;
  ai::GemmForward& call = bound.call;
  call.attrs = attrs;
  Reader reader(bound.owners, hold);
  call.attrs.trans_a ^= reader.factor(arguments.A, "A", call.A);
  call.attrs.trans_b ^= reader.factor(arguments.B, "B", call.B);
  reader.matrix(arguments.C, "C", Use::Read, call.C);
  reader.bias(arguments.bias, call);
  reader.matrix(arguments.Y, "Y", Use::Write, call.Y);
  reader.matrix(arguments.Z, "Z", Use::Write, call.Z);
  return bound;
}

BoundCall<ai::GemmBackward> backward_call(const BackwardArguments& arguments,
                                          const ai::GemmAttrs& attrs, Hold hold) {
  BoundCall<ai::GemmBackward> bound;
  ai::GemmBackward& call = bound.call;
  call.attrs = attrs;
  Reader reader(bound.owners, hold);
  bool transposed_a = reader.factor(arguments.A, "A", call.A);
  bool transposed_b = reader.factor(arguments.B, "B", call.B);
  reader.matrix(arguments.C, "C", Use::Read, call.C);
  reader.matrix(arguments.gY, "gY", Use::Read, call.gY);
  reader.matrix(arguments.Z, "Z", Use::Read, call.Z);
  reader.gradient_of(call.A, transposed_a, "A", arguments.gA, "gA", call.gA);
  reader.gradient_of(call.B, transposed_b, "B", arguments.gB, "gB", call.gB);
  reader.gradients(arguments, call);
  call.attrs.trans_a ^= transposed_a;
  call.attrs.trans_b ^= transposed_b;
  return bound;
}

void accumulate(ai::GemmBackward& call, nb::handle names) {
  const auto add = [&call](nb::handle name) {
    if (!nb::isinstance<nb::str>(name)) {
      throw nb::type_error("accumulate: expected the names of gradients, such as (\"gA\", \"gB\")");
    }
    const std::string wanted = text_of(name);
    const std::pair<std::string_view, std::optional<ai::Gradient>*> gradients[] = {
        {"gA", &call.gA}, {"gB", &call.gB}, {"gC", &call.gC}, {"gBias", &call.gBias}};
    for (const auto& [known, gradient] : gradients) {
      if (known != wanted) continue;
      if (!gradient->has_value()) {
        raise(ai::StatusCode::MissingOutput,
              wanted + " is not given, expected it because accumulate names it");
      }
      (*gradient)->mode = ai::GradMode::Accumulate;
      return;
    }
    raise(ai::StatusCode::Invalid,
          "accumulate names '" + wanted + "', expected gA, gB, gC or gBias");
  };
  if (!given(names)) return;
  if (nb::isinstance<nb::str>(names)) return add(names);
  for (const nb::handle name : nb::iter(names)) add(name);
}

ai::GemmAttrs make_attrs(bool trans_a, bool trans_b, bool with_bias, bool save_z, nb::handle act,
                         float leaky_slope, float alpha, float beta) {
  return {.trans_a = trans_a,
          .trans_b = trans_b,
          .with_bias = with_bias,
          .save_z = save_z,
          .act = activation_of(act),
          .leaky_slope = leaky_slope,
          .alpha = alpha,
          .beta = beta};
}

void bind_attrs(nb::module_& module) {
  nb::class_<ai::GemmAttrs>(
      module, "GemmAttrs",
      "What a forward call and its backward call share. `with_bias` and `save_z` demand the\n"
      "operand; one that is given is used without them. `trans_a`: A is [K,M]; `trans_b`: B is\n"
      "[N,K]; a transposed view turns the flag over by itself. `leaky_slope` is LeakyReLU's.\n"
      "alpha = 0: A and B are not read; beta = 0: C is not read. Values are checked by the call\n"
      "that uses them.")
      .def(
          "__init__",
          [](ai::GemmAttrs* self, bool trans_a, bool trans_b, bool with_bias, bool save_z,
             nb::handle act, float leaky_slope, float alpha, float beta) {
            new (self) ai::GemmAttrs(
                make_attrs(trans_a, trans_b, with_bias, save_z, act, leaky_slope, alpha, beta));
          },
          "trans_a"_a = false, "trans_b"_a = false, "with_bias"_a = false, "save_z"_a = false,
          "act"_a.none() = "none", "leaky_slope"_a = 0.01F, "alpha"_a = 1.0F, "beta"_a = 0.0F,
          nb::sig("def __init__(self, trans_a: bool = False, trans_b: bool = False, "
                  "with_bias: bool = False, save_z: bool = False, "
                  "act: ActKind | str | None = \"none\", leaky_slope: float = 0.01, "
                  "alpha: float = 1.0, beta: float = 0.0) -> None"),
          "`act` is an ActKind or its name, such as \"relu\".")
      .def_rw("trans_a", &ai::GemmAttrs::trans_a, "A is stored [K,M].")
      .def_rw("trans_b", &ai::GemmAttrs::trans_b, "B is stored [N,K].")
      .def_rw("with_bias", &ai::GemmAttrs::with_bias, "Demands the bias operand.")
      .def_rw("save_z", &ai::GemmAttrs::save_z, "Demands the Z operand.")
      .def_prop_rw(
          "act", [](const ai::GemmAttrs& self) { return self.act; },
          [](ai::GemmAttrs& self, nb::handle act) { self.act = activation_of(act); },
          nb::for_setter(nb::arg("act").none()),
          nb::for_setter(nb::sig("def act(self, act: ActKind | str | None, /) -> None")),
          "The activation; set it by an ActKind or its name.")
      .def_rw("leaky_slope", &ai::GemmAttrs::leaky_slope, "LeakyReLU's slope below zero.")
      .def_rw("alpha", &ai::GemmAttrs::alpha, "Factor of op(A) op(B).")
      .def_rw("beta", &ai::GemmAttrs::beta, "Factor of C.")
      .def("__repr__", &repr);
}

}  // namespace ge_python
