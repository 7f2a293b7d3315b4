#include "ai/capture.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings.hpp"
#include "executable.hpp"
#include "gc.hpp"
#include "gil.hpp"
#include "option.hpp"
#include "program.hpp"
#include "python_step.hpp"
#include "status.hpp"
#include "stream.hpp"
#include "tuning.hpp"

namespace ge_python {
namespace {

using namespace nb::literals;

ai::Target target_of(nb::handle object) {
  return option_of<ai::Target>(object, "target",
                               {{"auto", static_cast<int>(ai::Target::Auto)},
                                {"host", static_cast<int>(ai::Target::Host)},
                                {"cuda", static_cast<int>(ai::Target::CUDA)}});
}

std::unique_ptr<Executable> capture(const Program& program, nb::handle target, nb::handle tuning,
                                    double tuning_budget_s, int capture_retries, bool fuse_layers,
                                    bool cooperative_launches, nb::handle tuning_cache,
                                    nb::handle on_tuning_progress, nb::handle on_tuning_warning) {
  ai::CaptureOptions options;
  options.target = target_of(target);
  options.tuning = tuning_of(tuning);
  options.tuning_budget_s = tuning_budget_s;
  options.capture_retries = capture_retries;
  options.fuse_layers = fuse_layers;
  options.cooperative_launches = cooperative_launches;
  options.tuning_cache = path_of("tuning_cache", tuning_cache);
  TuningEvents events(on_tuning_progress, on_tuning_warning);
  events.listen(options);
  if (!(tuning_budget_s >= 0)) {
    raise(ai::StatusCode::Invalid, "tuning_budget_s is " + std::to_string(tuning_budget_s) +
                                       ", expected seconds, 0 or more");
  }
  if (capture_retries < 0) {
    raise(ai::StatusCode::Invalid,
          "capture_retries is " + std::to_string(capture_retries) + ", expected 0 or more");
  }
  // Copies, since another thread may add to the program meanwhile.
  const ai::Program items = program.program;
  Held held = program.held;
  const StepErrors errors;
  std::optional<ai::Result<ai::Executable>> made;
  {
    const WithoutGil unlocked;
    made.emplace(ai::capture(items, options));
  }
  errors.check(made->status());
  events.finish();
  return std::make_unique<Executable>(std::move(**made), std::move(held));
}

void target_available(nb::handle target) {
  const ai::Target wanted = target_of(target);
  ai::Status status;
  {
    const WithoutGil unlocked;
    status = ai::target_available(wanted);
  }
  check(status);
}

std::string repr(const ai::Node& node) {
  std::string text = "Node(name='" + node.name + "', kind='" + node.kind + "', depends_on=[";
  for (std::size_t i = 0; i < node.depends_on.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(node.depends_on[i]);
  }
  return text + "])";
}

constexpr char kCaptureDoc[] =
    "Chooses how each call is done, records the whole program into one CUDA graph and\n"
    "returns what replays it. For tensors of Device.CPU: prepares it for the host, in\n"
    "double precision, a reference that needs no GPU.\n\n"
    "`target`: 'auto' (by the tensors' device), 'host', 'cuda' or a Target. `tuning`:\n"
    "'measure' takes what the tuning file knows to be fastest and times the candidates of\n"
    "what it does not know on scratch operands, for `tuning_budget_s` seconds at most;\n"
    "'remeasure' times all; 'off' takes the first that applies. `tuning_cache`: the file; ''\n"
    "for none, None for tuning_cache_path(). `on_tuning_progress(TuningProgress)` is called\n"
    "before each candidate, `on_tuning_warning(str)` when something is wrong with the file,\n"
    "or the folder of compiled kernels beside it, which is then ignored; without it that is a "
    "RuntimeWarning. What a handler raises,\n"
    "capture raises. `capture_retries`: how often a recording that another thread broke is\n"
    "begun again. `fuse_layers`: whether forward plans whose A is the Y of the one before may\n"
    "be one kernel, and `cooperative_launches`: whether that may be one that begins only when\n"
    "all its blocks have room on the GPU at once, here or in a replay, so never beside a kernel "
    "that holds part of\n"
    "it and does not end. Operands' contents are neither read nor written, except by steps.\n\n"
    "The Executable holds what the Program holds; the Program may go.\n\n"
    "Raises DeviceMismatch (target against tensors, a pointer that CUDA places elsewhere),\n"
    "Invalid (an empty program, a bad option, an exception in a step, which is the error's\n"
    "__cause__), OutOfMemory, Unsupported (no GPU, no driver, a library missing),\n"
    "CaptureInvalidated, CudaError; TypeError for options of other types.";
constexpr char kExecutableDoc[] =
    "A captured program over fixed memory; made by capture() and clone().\n\n"
    "It holds the objects that were given as operands, and the steps' functions, until it\n"
    "is gone and its last launch is over, so tensors may be dropped while work is in\n"
    "flight. (What was in flight when it went is let go by a later capture, wait or end of\n"
    "any Executable.) Memory given by its address alone is yours to keep.\n\n"
    "Threads may share it: they take turns. A step must not use the Executable that runs it\n"
    "(Invalid).";
constexpr char kLaunchDoc[] =
    "Enqueues one replay on `stream` and returns at once, without waiting.\n\n"
    "`stream`: None (the legacy default stream), an int handle (0 and 1 legacy, 2\n"
    "per-thread), ctypes.c_void_p, a PyCapsule, a torch or CuPy stream, of the program's\n"
    "GPU, which is not checked. The replay comes after all work already there and after the "
    "previous launch of this Executable,\n"
    "whatever that one's stream. The stream must live until the launch is over (for wait(),\n"
    "until that returns). On the host: the program is done on return, `stream` is ignored.\n\n"
    "Raises CaptureActive where `stream` is being captured (that capture stays intact),\n"
    "CudaError, and on the host GemmError (Invalid) with a step's exception as its\n"
    "__cause__.";
constexpr char kEnqueueDoc[] =
    "Enqueues the same steps one by one on `stream`, without the graph: what a replay\n"
    "saves, and a way to look at single kernels in a profiler.\n\n"
    "Steps' functions run again (torch.cuda.ExternalStream(0) is no default stream: give\n"
    "one of your own where steps use it). Order it against launches on other streams\n"
    "yourself: both use one workspace. Raises as launch does, DeviceMismatch for a stream of\n"
    "another GPU, and what steps raise.";
constexpr char kWaitDoc[] =
    "Blocks until the last launch is over. Raises what went wrong on the device. Returns at\n"
    "once if nothing was launched.";
constexpr char kRebindDoc[] =
    "Moves operands to other memory for all launches to come; launches already enqueued\n"
    "keep the old. Microseconds, no waiting, all at once, so two buffers can change places.\n\n"
    "`moves`: a dict {old: new} or a list of pairs (for NumPy's and CuPy's arrays, which\n"
    "are no keys). `old` and `new` are arrays, Tensors or addresses (int). Every operand\n"
    "that begins where `old` does moves. A new array must be as the old one: dtype, device,\n"
    "shape and strides, also transposed where that was. Against an int `old` it must look\n"
    "as operands() says. An address as `new` is not checked. Contents are not copied.\n\n"
    "From now on the new arrays are held, and the old ones until the launches that use them\n"
    "are over: they are let go by a later launch, rebind or wait. Those of the first rebind\n"
    "need the launch after it for that, and those that enqueue() used need wait().\n\n"
    "All or nothing. Raises ShapeMismatch, StrideMismatch, DtypeMismatch or DeviceMismatch\n"
    "naming the operand, Invalid (no operand begins at `old`, or it is a temporary), the\n"
    "errors of Program.forward and backward over the new memory (Overlap, ...), those of\n"
    "capture, and TypeError for other types.";
constexpr char kCloneDoc[] =
    "An Executable of its own for the same program, with `moves` applied as by rebind: same\n"
    "choices, own workspace, nothing shared, so that both may run at once where they write\n"
    "different memory. No tuning. It holds all its own operands. Raises as rebind does.";

void bind_results(nb::module_& module) {
  nb::enum_<ai::Target>(module, "Target", "Where a program runs.")
      .value("Auto", ai::Target::Auto, "By the device of its tensors.")
      .value("Host", ai::Target::Host, "The CPU, in double precision.")
      .value("CUDA", ai::Target::CUDA, "A GPU, as one CUDA graph.");
  nb::class_<ai::Node>(module, "Node", "A node of the captured graph, or a step on the host.")
      .def_ro("name", &ai::Node::name, "The step it came from.")
      .def_ro("kind", &ai::Node::kind, "\"kernel\", \"memset\", \"memcpy\", \"host\", ...")
      .def_ro("depends_on", &ai::Node::depends_on, "Indices into nodes().")
      .def("__repr__", &repr);
  nb::class_<BoundOperand>(module, "BoundOperand", nb::type_slots(GcSlots<BoundOperand>::slots),
                           "An operand of an Executable, over the memory of the next launch.")
      .def_ro("item", &BoundOperand::item, "The call or step, e.g. \"forward Y[64,10]\".")
      .def_ro("name", &BoundOperand::name, "\"A\", \"gBias\", \"reads[0]\", \"host\", ...")
      .def_prop_ro(
          "tensor", [](const BoundOperand& self) { return self.tensor; },
          "Its Tensor; holds the memory where the Executable does.")
      .def("__repr__", [](const BoundOperand& self) {
        return "<BoundOperand " + self.name + " of " + self.item + ">";
      });
}

}  // namespace

void bind_executable(nb::module_& module) {
  bind_results(module);
  nb::class_<Executable>(module, "Executable", nb::type_slots(GcSlots<Executable>::slots),
                         nb::is_weak_referenceable(), kExecutableDoc)
      .def(
          "launch", [](Executable& self, nb::handle stream) { self.launch(stream_of(stream)); },
          "stream"_a.none() = nb::none(),
          nb::sig("def launch(self, stream: typing.Any = None) -> None"), kLaunchDoc)
      .def(
          "enqueue", [](Executable& self, nb::handle stream) { self.enqueue(stream_of(stream)); },
          "stream"_a.none() = nb::none(),
          nb::sig("def enqueue(self, stream: typing.Any = None) -> None"), kEnqueueDoc)
      .def("wait", &Executable::wait, kWaitDoc)
      .def("rebind", &Executable::rebind, "moves"_a,
           nb::sig("def rebind(self, moves: dict[typing.Any, typing.Any] | "
                   "typing.Sequence[tuple[typing.Any, typing.Any]]) -> None"),
           kRebindDoc)
      .def("clone", &Executable::clone, "moves"_a.none() = nb::none(),
           nb::sig("def clone(self, moves: dict[typing.Any, typing.Any] | "
                   "typing.Sequence[tuple[typing.Any, typing.Any]] | None = None) -> Executable"),
           kCloneDoc)
      .def("explain", &Executable::explain,
           "For each choice: the candidate, its time, the runner-up, and why the others were not\n"
           "taken.")
      .def_prop_ro("tuning", &Executable::tuning,
                   "The TuningReport of its capture; a clone chose nothing.")
      .def("dot", &Executable::dot, "nodes() in Graphviz's language.")
      .def("nodes", &Executable::nodes, "The nodes of the graph, in program order.")
      .def("operands", &Executable::operands,
           "What the next launch reads and writes outside the library, in program order.")
      .def_prop_ro("workspace_bytes", &Executable::workspace_bytes,
                   "Device memory that it owns (host memory on the host target).")
      .def_prop_ro("target", &Executable::target, "Target.Host or Target.CUDA.")
      .def("__repr__", &Executable::repr);
  module.def("capture", &capture, "program"_a, nb::kw_only(), "target"_a = "auto",
             "tuning"_a = "measure", "tuning_budget_s"_a = 2.0, "capture_retries"_a = 3,
             "fuse_layers"_a = true, "cooperative_launches"_a = true,
             "tuning_cache"_a.none() = nb::none(), "on_tuning_progress"_a.none() = nb::none(),
             "on_tuning_warning"_a.none() = nb::none(),
             nb::sig("def capture(program: Program, *, target: Target | str = \"auto\", "
                     "tuning: Tuning | str = \"measure\", tuning_budget_s: float = 2.0, "
                     "capture_retries: int = 3, fuse_layers: bool = True, "
                     "cooperative_launches: bool = True, "
                     "tuning_cache: str | bytes | os.PathLike[str] | None = None, "
                     "on_tuning_progress: "
                     "collections.abc.Callable[[TuningProgress], object] | None = None, "
                     "on_tuning_warning: collections.abc.Callable[[str], object] | None = None"
                     ") -> Executable"),
             kCaptureDoc);
  module.def("target_available", &target_available, "target"_a = "cuda",
             nb::sig("def target_available(target: Target | str = \"cuda\") -> None"),
             "Returns where programs can be captured for `target` here; raises why not\n"
             "(Unsupported: no GPU, no driver, a build without CUDA). 'auto' asks for CUDA.");
}

}  // namespace ge_python
