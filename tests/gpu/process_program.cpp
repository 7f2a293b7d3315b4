// Run by test_gpu_first_use, in a process of its own. Ends with 0 and says nothing, or says what
// went wrong and ends with 1.
//
//   process_program fork-before-use   the child uses the library, then the parent does
//   process_program fork-after-use    the parent has used it: each call of the child must fail
//   process_program static HOW        executables in static objects at the end: `idle` (never
//                                     launched), `waited`, `running`, `host-function` (running, and
//                                     its graph retains its memory)
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "placed_case.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Failure {
  std::string text;
};

void require(bool good, const std::string& text) {
  if (!good) throw Failure{text};
}
void require(cudaError_t error, const char* what) {
  require(error == cudaSuccess, std::string(what) + ": " + cudaGetErrorString(error));
}
void require(const ai::Status& status, const char* what) {
  require(status.ok(), std::string(what) + ": " + status.to_string());
}

/// All that a process does with the library, over operands of its own.
struct Use {
  // On other operands of the same shapes nothing is known of the call.
  gpu::PlacedForward placed{gpu::layer_case()};
  gpu::PlacedForward other{gpu::layer_case()};
  cudaStream_t stream = nullptr;
  ai::Program program;
  std::optional<ai::Executable> executable;

  void begin() {
    require(placed.allocate(), "memory");
    require(other.allocate(), "memory");
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    ai::Result<ai::Program> made = gpu::program_of(placed.call());
    require(made.status(), "the program");
    program = std::move(*made);
    ai::Result<ai::Executable> captured = ai::capture(program, {.tuning = ai::Tuning::Off});
    require(captured.status(), "capture");
    executable = std::move(*captured);
    replay();
    for (int i = 0; i < 20; ++i) call_directly();  // until all of it is known
  }
  void replay() {
    require(placed.upload(), "operands");
    require(executable->launch(stream), "launch");
    require(executable->wait(), "wait");
    check("replay");
  }
  void call_directly() {
    require(placed.upload(), "operands");
    require(gpu::direct(placed.call(), stream), "a direct call");
    require(cudaStreamSynchronize(stream), "a direct call");
    check("a direct call");
  }
  void check(const std::string& what) {
    const std::string wrong = placed.wrong();
    require(wrong.empty(), what + ": " + wrong);
  }
};

/// Runs `work` in a child that is forked here, for at most a minute.
void in_child(const std::function<void()>& work) {
  (void)std::fflush(nullptr);
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    int code = 0;
    try {
      work();
    } catch (const Failure& failure) {
      std::printf("in the child: %s\n", failure.text.c_str());
      (void)std::fflush(nullptr);
      code = 1;
    }
    _exit(code);
  }
  const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      (void)kill(child, SIGKILL);
      (void)waitpid(child, &status, 0);
      throw Failure{"the child hangs"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  require(!WIFSIGNALED(status), "the child died of signal " + std::to_string(WTERMSIG(status)));
  require(WEXITSTATUS(status) == 0, "the child failed");
}

void fork_before_use() {
  const auto use = [] {
    Use mine;
    mine.begin();
  };
  in_child(use);
  use();
}

/// What the parent's context is needed for fails, in less than a second, and says why.
void must_fail(const char* what, const std::function<ai::Status()>& call) {
  const Clock::time_point start = Clock::now();
  const ai::Status status = call();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  require(!status.ok(), std::string(what) + " works in a forked child");
  require(seconds < 1.0, std::string(what) + " took " + std::to_string(seconds) + " s");
  require(!status.message().empty(), std::string(what) + " does not say why it fails");
}

void fork_after_use() {
  Use mine;
  mine.begin();
  // A launch that is not waited for: the child takes over what the parent believes of it.
  require(mine.executable->launch(mine.stream), "launch");
  in_child([&mine] {
    must_fail("capture", [&] { return ai::capture(mine.program).status(); });
    must_fail("launch", [&] { return mine.executable->launch(mine.stream); });
    must_fail("launch on the default stream", [&] { return mine.executable->launch(); });
    must_fail("enqueue", [&] { return mine.executable->enqueue(mine.stream); });
    must_fail("wait", [&] { return mine.executable->wait(); });
    must_fail("clone", [&] { return mine.executable->clone().status(); });
    must_fail("rebind", [&] {
      const ai::GemmForward from = mine.placed.call();
      const ai::GemmForward to = mine.other.call();
      return mine.executable->rebind({{from.A.data, to.A.data}, {from.Y.data, to.Y.data}});
    });
    must_fail("a known direct call", [&] { return gpu::direct(mine.placed.call(), mine.stream); });
    must_fail("a known direct call on the default stream",
              [&] { return gpu::direct(mine.placed.call(), nullptr); });
    must_fail("a direct call", [&] { return gpu::direct(mine.other.call(), mine.stream); });
    const Clock::time_point start = Clock::now();
    (void)ai::target_available(ai::Target::CUDA);
    ai::gemm::clear_plan_cache();
    mine.executable.reset();
    require(Clock::now() - start < std::chrono::seconds(1), "the end took more than a second");
  });
  require(mine.executable->wait(), "wait after the fork");
  mine.replay();
  mine.call_directly();
}

/// Made before the library is used, so gone after what the library and CUDA make then.
struct Early {
  std::unique_ptr<Use> use;
  std::optional<ai::Executable> clone;
} early;

cudaError_t add_host_function(cudaStream_t stream) {
  return cudaLaunchHostFunc(
      stream, [](void*) {}, nullptr);
}

void leave_to_static_objects(std::string_view how) {
  early.use = std::make_unique<Use>();
  Use& use = *early.use;
  use.begin();
  if (how == "host-function") {
    ai::UserStep step;
    step.name = "host function";
    step.reads = {use.placed.call().Y};
    step.cuda = [](const ai::StepContext& context) -> ai::Status {
      if (add_host_function(static_cast<cudaStream_t>(context.stream)) == cudaSuccess) return {};
      return {ai::StatusCode::CudaError, "cudaLaunchHostFunc"};
    };
    require(use.program.add(std::move(step)), "a step");
    ai::Result<ai::Executable> made = ai::capture(use.program, {.tuning = ai::Tuning::Off});
    require(made.status(), "capture");
    use.executable = std::move(*made);
  }
  ai::Result<ai::Executable> clone = use.executable->clone();
  require(clone.status(), "clone");
  early.clone = std::move(*clone);
  early.clone->hold(std::make_shared<int>(1));
  static std::optional<ai::Executable> late;  // gone before what was made until now
  clone = use.executable->clone();
  require(clone.status(), "clone");
  late = std::move(*clone);
  for (ai::Executable* executable : {&*early.clone, &*late}) {
    if (how == "idle") continue;
    for (int i = 0; i < 1000; ++i) require(executable->launch(use.stream), "launch");
    if (how == "waited") require(executable->wait(), "wait");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  try {
    if (what == "fork-before-use") {
      fork_before_use();
    } else if (what == "fork-after-use") {
      fork_after_use();
    } else if (what == "static" && argc > 2) {
      leave_to_static_objects(argv[2]);
    } else {
      std::fprintf(stderr, "usage: %s fork-before-use | fork-after-use | static HOW\n", argv[0]);
      return 2;
    }
  } catch (const Failure& failure) {
    std::printf("%s\n", failure.text.c_str());
    return 1;
  }
  return 0;
}
