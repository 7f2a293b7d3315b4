#include "ai/direct.hpp"

#include <cstddef>
#include <string>

#include "bindings.hpp"
#include "call.hpp"
#include "gil.hpp"
#include "status.hpp"
#include "stream.hpp"
#include "tensor.hpp"

namespace ge_python {
namespace {

using namespace nb::literals;

template <typename Call>
void run(const Call& call, ai::Stream stream, ai::Status (*enqueue)(const Call&, ai::Stream)) {
  ai::Status status;
  {
    const WithoutGil release;
    status = enqueue(call, stream);
  }
  check(status);
}

void run(const ai::GemmForward& call, ai::Stream stream) {
  run(call, stream, &ai::gemm::forward);
}

void run(const ai::GemmBackward& call, ai::Stream stream) {
  run(call, stream, &ai::gemm::backward);
}

void forward(nb::handle A, nb::handle B, nb::handle Bias, nb::handle Y, const ai::GemmAttrs& attrs,
             nb::handle stream, nb::handle Z_saved) {
  const ai::Stream on = stream_of(stream);
  BoundCall<ai::GemmForward> bound =
      forward_call({.A = A, .B = B, .bias = Bias, .Y = Y, .Z = Z_saved}, attrs, Hold::Call);
  if (attrs.beta != 0.0F && !Y.is_none()) bound.call.C = bound.call.Y;
  run(bound.call, on);
}

void backward(nb::handle A, nb::handle B, nb::handle C, nb::handle gY, nb::handle Z, nb::handle gA,
              nb::handle gB, nb::handle gC, nb::handle gBias, const ai::GemmAttrs& attrs,
              nb::handle stream) {
  const ai::Stream on = stream_of(stream);
  const BoundCall<ai::GemmBackward> bound = backward_call(
      {.A = A, .B = B, .C = C, .gY = gY, .Z = Z, .gA = gA, .gB = gB, .gC = gC, .gBias = gBias},
      attrs, Hold::Call);
  run(bound.call, on);
}

void forward_ex(nb::handle A, nb::handle B, nb::handle bias, nb::handle Y, bool trans_a,
                bool trans_b, nb::handle act, bool with_bias, float leaky_slope, bool save_z,
                nb::handle Z, nb::handle C, float alpha, float beta, nb::handle stream) {
  const ai::GemmAttrs attrs =
      make_attrs(trans_a, trans_b, with_bias, save_z, act, leaky_slope, alpha, beta);
  const ai::Stream on = stream_of(stream);
  const BoundCall<ai::GemmForward> bound =
      forward_call({.A = A, .B = B, .C = C, .bias = bias, .Y = Y, .Z = Z}, attrs, Hold::Call);
  run(bound.call, on);
}

void backward_ex(nb::handle A, nb::handle B, nb::handle gY, nb::handle Z, nb::handle C,
                 nb::handle gA, nb::handle gB, nb::handle gC, nb::handle gBias, bool trans_a,
                 bool trans_b, nb::handle act, bool with_bias, float leaky_slope, bool save_z,
                 float alpha, float beta, nb::handle accumulated, nb::handle stream) {
  const ai::GemmAttrs attrs =
      make_attrs(trans_a, trans_b, with_bias, save_z, act, leaky_slope, alpha, beta);
  const ai::Stream on = stream_of(stream);
  BoundCall<ai::GemmBackward> bound = backward_call(
      {.A = A, .B = B, .C = C, .gY = gY, .Z = Z, .gA = gA, .gB = gB, .gC = gC, .gBias = gBias},
      attrs, Hold::Call);
  accumulate(bound.call, accumulated);
  run(bound.call, on);
}

void bind_calls(nb::module_& module) {
  module.def(
      "forward", &forward, "A"_a.none(), "B"_a.none(), "Bias"_a.none(), "Y"_a.none(), "attrs"_a,
      "stream"_a.none(), "Z_saved"_a.none() = nb::none(),
      nb::sig("def forward(A: object, B: object, Bias: object | None, Y: object, "
              "attrs: GemmAttrs, stream: object | None, Z_saved: object | None = None) -> None"),
      "Enqueues Y = act(Z), Z = alpha * op(A) op(B) + beta * Y + bias, and returns at once.\n\n"
      "op(A) is [M,K], op(B) [K,N], Y and Z_saved [M,N], all float32; Bias [1], [1,1], [N], "
      "[1,N],\n"
      "[M,1] or None. Each is a Tensor (quickest) or an object with DLPack or\n"
      "__cuda_array_interface__ (torch, CuPy; NumPy on the host), used in place: A and B with a\n"
      "stride of 1 along their rows or their columns, Y and Z_saved along their rows.\n"
      "`stream`: None (the legacy default stream), an int handle, ctypes.c_void_p, a PyCapsule, a\n"
      "torch or a CuPy stream. Work is ordered on that stream alone.\n\n"
      "Nothing is kept alive: the caller holds the tensors until the work is done, or until "
      "memory\n"
      "that is freed is only handed out again in the order of `stream` (as torch's is for tensors\n"
      "made on it). Host tensors: done on return, `stream` is ignored.\n\n"
      "Raises the GemmError of what is wrong (ShapeMismatch, MissingInput, Unsupported without a\n"
      "GPU, ...), naming the operand, and TypeError for arguments of other types.");
  module.def(
      "backward", &backward, "A"_a.none(), "B"_a.none(), "C"_a.none(), "gY"_a.none(), "Z"_a.none(),
      "gA"_a.none(), "gB"_a.none(), "gC"_a.none(), "gBias"_a.none(), "attrs"_a, "stream"_a.none(),
      nb::sig("def backward(A: object, B: object, C: object | None, gY: object, "
              "Z: object | None, gA: object | None, gB: object | None, gC: object | None, "
              "gBias: object | None, attrs: GemmAttrs, stream: object | None) -> None"),
      "Enqueues the gradients that are given, and returns at once.\n\n"
      "gZ = gY * act'(Z); gA = alpha * gZ op(B)^T, stored as A is; gB = alpha * op(A)^T gZ, "
      "stored\n"
      "as B is; gC = beta * gZ (needs C, which is not read); gBias = gZ summed to its shape. gY, "
      "Z,\n"
      "C and gC are [M,N]. Z is what forward saved; None will do without an activation. Each\n"
      "gradient replaces what its tensor holds. Where A is a transposed view, gA is one too\n"
      "(LayoutMismatch otherwise), and likewise gB.\n\n"
      "Arguments, `stream`, lifetime and errors as for forward.");
  module.def(
      "forward_ex", &forward_ex, "A"_a.none(), "B"_a.none(), "bias"_a.none(), "Y"_a.none(),
      nb::kw_only(), "trans_a"_a = false, "trans_b"_a = false, "act"_a.none() = "none",
      "with_bias"_a = false, "leaky_slope"_a = 0.01F, "save_z"_a = false, "Z"_a.none() = nb::none(),
      "C"_a.none() = nb::none(), "alpha"_a = 1.0F, "beta"_a = 0.0F, "stream"_a.none() = nb::none(),
      nb::sig("def forward_ex(A: object, B: object, bias: object | None, Y: object, *, "
              "trans_a: bool = False, trans_b: bool = False, act: ActKind | str | None = \"none\", "
              "with_bias: bool = False, leaky_slope: float = 0.01, save_z: bool = False, "
              "Z: object | None = None, C: object | None = None, alpha: float = 1.0, "
              "beta: float = 0.0, stream: object | None = None) -> None"),
      "forward with GemmAttrs' fields as keywords, and with a C of its own:\n"
      "Y = act(Z), Z = alpha * op(A) op(B) + beta * C + bias. C is [M,N] and may be Y itself.");
  module.def(
      "backward_ex", &backward_ex, "A"_a.none(), "B"_a.none(), "gY"_a.none(),
      "Z"_a.none() = nb::none(), nb::kw_only(), "C"_a.none() = nb::none(),
      "gA"_a.none() = nb::none(), "gB"_a.none() = nb::none(), "gC"_a.none() = nb::none(),
      "gBias"_a.none() = nb::none(), "trans_a"_a = false, "trans_b"_a = false,
      "act"_a.none() = "none", "with_bias"_a = false, "leaky_slope"_a = 0.01F, "save_z"_a = false,
      "alpha"_a = 1.0F, "beta"_a = 0.0F, "accumulate"_a.none() = nb::make_tuple(),
      "stream"_a.none() = nb::none(),
      nb::sig("def backward_ex(A: object, B: object, gY: object, Z: object | None = None, *, "
              "C: object | None = None, gA: object | None = None, gB: object | None = None, "
              "gC: object | None = None, gBias: object | None = None, trans_a: bool = False, "
              "trans_b: bool = False, act: ActKind | str | None = \"none\", "
              "with_bias: bool = False, leaky_slope: float = 0.01, save_z: bool = False, "
              "alpha: float = 1.0, beta: float = 0.0, "
              "accumulate: typing.Iterable[str] | str | None = (), "
              "stream: object | None = None) -> None"),
      "backward with GemmAttrs' fields as keywords (`with_bias` and `save_z` demand nothing "
      "here).\n"
      "`accumulate` names the gradients that add to what their tensors hold, e.g. (\"gB\", "
      "\"gBias\").");
}

}  // namespace

void bind_direct(nb::module_& module) {
  bind_calls(module);
  using Info = ai::gemm::PlanCacheInfo;
  nb::class_<Info>(module, "PlanCacheInfo", "What the direct path keeps, in this process.")
      .def_ro("plans", &Info::plans, "Problems planned and kept.")
      .def_ro("limit", &Info::limit, "How many at most; the one longest unused goes first.")
      .def_ro("planned", &Info::planned, "Problems planned so far, kept or not.")
      .def_ro("scratch_blocks", &Info::scratch_blocks, "Streams with scratch.")
      .def_ro("scratch_bytes", &Info::scratch_bytes, "Device memory in them.")
      .def_ro("graphs", &Info::graphs, "Calls that are graphs, of all threads.")
      .def_ro("graph_limit", &Info::graph_limit, "How many at most.");
  const nb::call_guard<WithoutGil> without_gil;
  module.def(
      "plan_cache", &ai::gemm::plan_cache, without_gil,
      "What the direct path keeps. All zero in a build without CUDA: only calls on a GPU keep\n"
      "plans.");
  module.def("set_plan_cache_limit", &ai::gemm::set_plan_cache_limit, "plans"_a, without_gil,
             "How many plans are kept at most (1024 at first). 0: every call plans.");
  module.def(
      "set_graph_limit", &ai::gemm::set_graph_limit, "graphs"_a, without_gil,
      "How many repeated calls may be graphs at once (256 at first). 0: none, and no call but the\n"
      "first for a problem records anything, which cudaDeviceSynchronize (torch.cuda.synchronize)\n"
      "in another thread at that moment would disturb.");
  module.def("clear_plan_cache", &ai::gemm::clear_plan_cache, without_gil,
             "Forgets every plan and gives scratch back, behind the work that uses it.");
}

}  // namespace ge_python
