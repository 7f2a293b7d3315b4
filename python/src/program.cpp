#include "program.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "call.hpp"
#include "gc.hpp"
#include "operand.hpp"
#include "python_step.hpp"
#include "status.hpp"
#include "tensor.hpp"
#include "tensor_desc.hpp"

namespace ge_python {
namespace {

using namespace nb::literals;

/// GemmAttrs' fields as keywords; none: not given.
struct Keywords {
  std::optional<bool> trans_a, trans_b;
  nb::handle act;
  std::optional<float> leaky_slope, alpha, beta;
};

ai::GemmAttrs attrs_of(const ai::GemmAttrs* attrs, const Keywords& keywords) {
  const bool named = keywords.trans_a || keywords.trans_b || !keywords.act.is_none() ||
                     keywords.leaky_slope || keywords.alpha || keywords.beta;
  if (attrs != nullptr && named) {
    throw nb::type_error("expected attrs or its fields as keywords, not both");
  }
  if (attrs != nullptr) return *attrs;
  ai::GemmAttrs made;
  made.trans_a = keywords.trans_a.value_or(made.trans_a);
  made.trans_b = keywords.trans_b.value_or(made.trans_b);
  made.act = activation_of(keywords.act);
  made.leaky_slope = keywords.leaky_slope.value_or(made.leaky_slope);
  made.alpha = keywords.alpha.value_or(made.alpha);
  made.beta = keywords.beta.value_or(made.beta);
  return made;
}

// The GIL is kept while items are added: nothing here reaches CUDA, and it is what keeps threads
// apart that add to one program.
template <typename Owners, typename Item>
void add(Program& self, Owners& owners, Item&& item) {
  self.held.reserve_more(std::size(owners));
  check(self.program.add(std::forward<Item>(item)));
  for (HeldOwner& owner : owners) self.held.add(owner.data, std::move(owner.object));
}

void forward(Program& self, nb::handle A, nb::handle B, nb::handle bias, nb::handle Y,
             const ai::GemmAttrs* attrs, nb::handle Z, nb::handle C, std::optional<bool> trans_a,
             std::optional<bool> trans_b, nb::handle act, std::optional<float> leaky_slope,
             std::optional<float> alpha, std::optional<float> beta) {
  auto bound =
      forward_call({.A = A, .B = B, .C = C, .bias = bias, .Y = Y, .Z = Z},
                   attrs_of(attrs, {trans_a, trans_b, act, leaky_slope, alpha, beta}), Hold::Keep);
  add(self, bound.owners, take(ai::plan_forward(bound.call)));
}

void backward(Program& self, nb::handle A, nb::handle B, nb::handle C, nb::handle gY, nb::handle Z,
              nb::handle gA, nb::handle gB, nb::handle gC, nb::handle gBias,
              const ai::GemmAttrs* attrs, nb::handle accumulated, std::optional<bool> trans_a,
              std::optional<bool> trans_b, nb::handle act, std::optional<float> leaky_slope,
              std::optional<float> alpha, std::optional<float> beta) {
  auto bound = backward_call(
      {.A = A, .B = B, .C = C, .gY = gY, .Z = Z, .gA = gA, .gB = gB, .gC = gC, .gBias = gBias},
      attrs_of(attrs, {trans_a, trans_b, act, leaky_slope, alpha, beta}), Hold::Keep);
  accumulate(bound.call, accumulated);
  add(self, bound.owners, take(ai::plan_backward(bound.call)));
}

/// The tensors of a step's reads or writes.
std::vector<ai::Tensor> operands_of(nb::handle objects, const std::string& name, Use use,
                                    std::vector<HeldOwner>& owners) {
  // A tensor can be iterated over too, by rows.
  if (!nb::isinstance<nb::list>(objects) && !nb::isinstance<nb::tuple>(objects)) {
    refuse_type(name, objects, "a list or a tuple of tensors");
  }
  std::vector<ai::Tensor> tensors;
  for (const nb::handle object : objects) {
    const std::string each = name + "[" + std::to_string(tensors.size()) + "]";
    Operand operand = step_operand(object, each.c_str(), use, Hold::Keep);
    tensors.push_back(operand.tensor);
    owners.push_back({operand.tensor.data, std::move(operand.owner)});
  }
  return tensors;
}

void step(Program& self, std::string name, nb::handle reads, nb::handle writes, nb::handle fn) {
  if (PyCallable_Check(fn.ptr()) == 0) {
    refuse_type("fn", fn, "a callable fn(stream, reads, writes)");
  }
  std::vector<HeldOwner> owners;
  std::vector<ai::Tensor> read = operands_of(reads, "reads", Use::Read, owners);
  std::vector<ai::Tensor> written = operands_of(writes, "writes", Use::Write, owners);
  nb::object function = nb::borrow(fn);
  add(self, owners, python_step(std::move(name), std::move(read), std::move(written), fn));
  self.held.functions.push_back(std::move(function));
}

void copy(Program& self, nb::handle host, nb::handle device, bool in) {
  Operand from = step_operand(in ? host : device, in ? "host" : "device", Use::Read, Hold::Keep);
  Operand to = step_operand(in ? device : host, in ? "device" : "host", Use::Write, Hold::Keep);
  self.held.reserve_more(2);
  check(in ? self.program.copy_in(from.tensor, to.tensor)
           : self.program.copy_out(from.tensor, to.tensor));
  self.held.add(from.tensor.data, std::move(from.owner));
  self.held.add(to.tensor.data, std::move(to.owner));
}

ai::Extents shape_of(nb::handle shape) {
  if (PySequence_Check(shape.ptr()) != 0) return extents_of(shape, "shape");
  return extents_of(nb::make_tuple(shape), "shape");
}

Tensor temporary(Program& self, nb::handle shape, ai::DType dtype, ai::Device device,
                 int device_index) {
  const ai::TensorDesc desc{dtype, ai::Layout::RowMajor, shape_of(shape), {}};
  return {take(self.program.temporary(desc, device, device_index)), {}};
}

std::string repr(const Program& self) {
  const ai::Program& program = self.program;
  std::string text = "<Program of " + std::to_string(program.items().size()) + " items";
  if (!program.empty()) {
    text += std::string(" on ") + ai::to_string(program.device());
    if (program.device() == ai::Device::CUDA) text += ":" + std::to_string(program.device_index());
  }
  return text + ", " + std::to_string(program.temporaries().size()) + " temporaries>";
}

constexpr char kProgramDoc[] =
    "An ordered list of GEMM calls, copies and steps of your own over one device's tensors,\n"
    "to be captured (see capture) and replayed with one call.\n\n"
    "Later items see what earlier ones wrote; items that share no written memory may run at\n"
    "the same time. Operands are Tensors, or objects with DLPack, the buffer protocol or\n"
    "__cuda_array_interface__ (torch, CuPy, NumPy), used in place and held by the Program\n"
    "and by every Executable captured from it; memory given by its address alone\n"
    "(make_tensor_2d) is yours to keep alive. A method that raises has changed nothing.";
constexpr char kForwardDoc[] =
    "Appends Y = act(Z), Z = alpha * op(A) op(B) + beta * C + bias.\n\n"
    "op(A) is [M,K], op(B) [K,N]; C, Y and Z are [M,N]; bias is [1], [1,1], [N], [1,N],\n"
    "[M,1] or None; all float32. A and B may be transposed views. Z is written where it is\n"
    "given (backward needs it for an activation); C is only read with beta != 0. Give\n"
    "either `attrs` or its fields as keywords; both are a TypeError.\n\n"
    "Raises the GemmError of what is wrong: ShapeMismatch, StrideMismatch, DtypeMismatch,\n"
    "LayoutMismatch, DeviceMismatch (also against the first item), MissingInput,\n"
    "MissingOutput, Overlap, Invalid (null data, a slope that is not finite, a temporary of\n"
    "another program or one that is read before it is written).";
constexpr char kBackwardDoc[] =
    "Appends the gradients of a forward call: gZ = gY * act'(Z), then each that is given,\n"
    "gA = alpha * gZ op(B)^T (stored as A is), gB = alpha * op(A)^T gZ (stored as B is), gC\n"
    "= beta * gZ (needs C, which is not read), gBias = gZ summed over the axes that bias\n"
    "was spread over.\n\n"
    "gY, Z, C and gC are [M,N]; gBias is shaped as the bias. Z may be None without an\n"
    "activation. Gradients replace what their tensors hold; those named in `accumulate`\n"
    "('gA', 'gB', 'gC', 'gBias') add to it. `attrs` or keywords, and errors, as for\n"
    "forward.";
constexpr char kStepDoc[] =
    "Appends fn(stream: int, reads: list[Tensor], writes: list[Tensor]).\n\n"
    "`reads` and `writes` (lists or tuples of tensors of any dtype) are all memory that fn\n"
    "uses; what it reads and writes belongs in both. It is handed them as Tensors over the\n"
    "addresses of this run, where a temporary has its real one. These views keep nothing\n"
    "alive: do not store them.\n\n"
    "Device CUDA: fn runs while the program is captured (again for enqueue, and perhaps for\n"
    "rebind and clone), never at replay. `stream` is a stream under capture: enqueue on it,\n"
    "e.g. under torch.cuda.stream(torch.cuda.ExternalStream(stream)), into memory that\n"
    "exists already; do not synchronise. What is enqueued is what every replay does. Device\n"
    "CPU: fn runs at each launch, `stream` is 0.\n\n"
    "What fn returns is ignored. An exception in it ends the call that runs it (capture,\n"
    "launch, ...) with GemmError (Invalid), whose __cause__ it is; KeyboardInterrupt and\n"
    "SystemExit pass as they are. fn must not use the Executable that runs it (Invalid),\n"
    "nor wait for a thread that does. The Program and its Executables hold fn and so all it\n"
    "closes over.";
constexpr char kCopyInDoc[] =
    "Appends a copy of `host` to `device`: an input that arrives with each launch.\n\n"
    "Same shape and dtype (any), strides free. The replay reads what lies in `host` when\n"
    "the copy runs: change it only before launch or after wait(). For a program on a GPU it\n"
    "must be pinned (torch's pin_memory; else DeviceMismatch at capture). On Device.CPU\n"
    "both are host memory.";
constexpr char kCopyOutDoc[] =
    "Appends a copy of `device` to `host`, complete once wait() has returned. As copy_in.";
constexpr char kTemporaryDoc[] =
    "Storage of the library's own, packed, for a value between items that nobody outside\n"
    "reads.\n\n"
    "`shape` is (rows, cols), (count,) or an int; `device` that of the program's other\n"
    "tensors. The Tensor is a placeholder for operands of this Program's items: it has no\n"
    "memory to look at (a step is handed the real place), and what it holds does not\n"
    "survive from one launch to the next. ShapeMismatch for other ranks, Invalid for a\n"
    "negative extent.";

}  // namespace

void bind_program(nb::module_& module) {
  nb::class_<Program>(module, "Program", nb::type_slots(GcSlots<Program>::slots),
                      nb::is_weak_referenceable(), kProgramDoc)
      .def(nb::init<>(), "An empty program.")
      .def("forward", &forward, "A"_a.none(), "B"_a.none(), "bias"_a.none(), "Y"_a.none(),
           "attrs"_a.none() = nb::none(), nb::kw_only(), "Z"_a.none() = nb::none(),
           "C"_a.none() = nb::none(), "trans_a"_a.none() = nb::none(),
           "trans_b"_a.none() = nb::none(), "act"_a.none() = nb::none(),
           "leaky_slope"_a.none() = nb::none(), "alpha"_a.none() = nb::none(),
           "beta"_a.none() = nb::none(),
           nb::sig("def forward(self, A: typing.Any, B: typing.Any, bias: typing.Any | None, "
                   "Y: typing.Any, attrs: GemmAttrs | None = None, *, Z: typing.Any | None = None, "
                   "C: typing.Any | None = None, trans_a: bool | None = None, "
                   "trans_b: bool | None = None, act: ActKind | str | None = None, "
                   "leaky_slope: float | None = None, alpha: float | None = None, "
                   "beta: float | None = None) -> None"),
           kForwardDoc)
      .def("backward", &backward, "A"_a.none(), "B"_a.none(), "C"_a.none(), "gY"_a.none(),
           "Z"_a.none(), "gA"_a.none() = nb::none(), "gB"_a.none() = nb::none(),
           "gC"_a.none() = nb::none(), "gBias"_a.none() = nb::none(), "attrs"_a.none() = nb::none(),
           nb::kw_only(), "accumulate"_a.none() = nb::make_tuple(), "trans_a"_a.none() = nb::none(),
           "trans_b"_a.none() = nb::none(), "act"_a.none() = nb::none(),
           "leaky_slope"_a.none() = nb::none(), "alpha"_a.none() = nb::none(),
           "beta"_a.none() = nb::none(),
           nb::sig("def backward(self, A: typing.Any, B: typing.Any, C: typing.Any | None, "
                   "gY: typing.Any, Z: typing.Any | None, gA: typing.Any | None = None, "
                   "gB: typing.Any | None = None, gC: typing.Any | None = None, "
                   "gBias: typing.Any | None = None, attrs: GemmAttrs | None = None, *, "
                   "accumulate: typing.Iterable[str] | str | None = (), "
                   "trans_a: bool | None = None, trans_b: bool | None = None, "
                   "act: ActKind | str | None = None, leaky_slope: float | None = None, "
                   "alpha: float | None = None, beta: float | None = None) -> None"),
           kBackwardDoc)
      .def("step", &step, "name"_a, "reads"_a, "writes"_a, "fn"_a,
           nb::sig("def step(self, name: str, reads: list[typing.Any] | tuple[typing.Any, ...], "
                   "writes: list[typing.Any] | tuple[typing.Any, ...], "
                   "fn: typing.Callable[[int, list[Tensor], list[Tensor]], object]) -> None"),
           kStepDoc)
      .def(
          "copy_in",
          [](Program& self, nb::handle host, nb::handle device) { copy(self, host, device, true); },
          "host"_a, "device"_a,
          nb::sig("def copy_in(self, host: typing.Any, device: typing.Any) -> None"), kCopyInDoc)
      .def(
          "copy_out",
          [](Program& self, nb::handle device, nb::handle host) {
            copy(self, host, device, false);
          },
          "device"_a, "host"_a,
          nb::sig("def copy_out(self, device: typing.Any, host: typing.Any) -> None"), kCopyOutDoc)
      .def("temporary", &temporary, "shape"_a, "dtype"_a.noconvert() = ai::DType::F32,
           "device"_a.noconvert() = ai::Device::CUDA, "device_index"_a = 0,
           nb::sig("def temporary(self, shape: int | typing.Sequence[int], "
                   "dtype: DType = F32, device: Device = CUDA, "
                   "device_index: int = 0) -> Tensor"),
           kTemporaryDoc)
      .def(
          "__len__", [](const Program& self) { return self.program.items().size(); },
          "How many items it has.")
      .def("__repr__", &repr);
}

}  // namespace ge_python
