// Run by test_gpu_first_use, in a process of its own: what it is told to do is the first GPU work
// here. Ends with 0, or says what went wrong and ends with 1.
//
//   first_use_program ROAD DIRECTION ACTIVATION BIAS [then-all] [then-beside] [then-reset]
//
// ROAD is `capture` (a program), `direct` (the direct path), or `global`, `thread-local`, `relaxed`
// (the direct path inside a capture of that mode); DIRECTION `forward` or `backward`; ACTIVATION
// and BIAS are numbers of the enumerations. `then-all`: afterwards every activation, bias and
// direction. `then-beside`: afterwards again, beside a kernel that does not end. `then-reset`:
// afterwards again, and then the device is reset and the process ends.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lifecycle_kernels.hpp"
#include "placed_case.hpp"

namespace {

struct Failure {
  std::string text;
};

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw Failure{std::string(what) + ": " + cudaGetErrorString(error)};
}
void require(const ai::Status& status, const char* what) {
  if (!status.ok()) throw Failure{std::string(what) + ": " + status.to_string()};
}
void require(const std::string& wrong, const char* what) {
  if (!wrong.empty()) throw Failure{std::string(what) + ": " + wrong};
}

class Stream {
 public:
  Stream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream"); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Waits for `stream` for at most five seconds.
void wait_for(cudaStream_t stream) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  cudaError_t state = cudaErrorNotReady;
  while (state == cudaErrorNotReady && std::chrono::steady_clock::now() < end) {
    state = cudaStreamQuery(stream);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  (void)cudaGetLastError();  // "not ready" may have been left there
  require(state, "the work is not done within five seconds");
}

/// One call, ready to be made again and again on a road.
class Work {
 public:
  virtual ~Work() = default;
  /// The first time.
  virtual void begin() = 0;
  /// Makes the call over fresh operands and checks what it gives. Waits for its own stream only.
  virtual void again() = 0;
};

template <typename Data>
class WorkOn final : public Work {
 public:
  WorkOn(std::string road, const support::Case& c) : road_(std::move(road)), placed_(c) {}
  ~WorkOn() override {
    if (exec_ != nullptr) (void)cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  // Operand memory must exist, but nothing is put there before the library has done its part.
  void begin() override {
    require(placed_.allocate(), "operand memory");
    if (road_ == "capture") {
      const ai::Result<ai::Program> program = gpu::program_of(placed_.call());
      require(program.status(), "the program");
      ai::Result<ai::Executable> executable = ai::capture(*program, {.tuning = ai::Tuning::Off});
      require(executable.status(), "capture");
      executable_ = std::move(*executable);
    } else if (road_ == "direct") {
      require(gpu::direct(placed_.call(), stream_.get()), "the direct path");
      require(cudaStreamSynchronize(stream_.get()), "the direct path");
    } else {
      const cudaStreamCaptureMode mode = road_ == "global" ? cudaStreamCaptureModeGlobal
                                         : road_ == "thread-local"
                                             ? cudaStreamCaptureModeThreadLocal
                                             : cudaStreamCaptureModeRelaxed;
      require(cudaStreamBeginCapture(stream_.get(), mode), "cudaStreamBeginCapture");
      const ai::Status recorded = gpu::direct(placed_.call(), stream_.get());
      const cudaError_t ended = cudaStreamEndCapture(stream_.get(), &graph_);
      require(recorded, "the direct path in the caller's capture");
      require(ended, "cudaStreamEndCapture");
      require(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
    }
    require(cudaGetLastError(), "the last-error slot");
    for (int i = 0; i < 3; ++i) again();
  }

  void again() override {
    require(placed_.upload(), "the operands");
    if (executable_) {
      require(executable_->launch(stream_.get()), "launch");
    } else if (exec_ != nullptr) {
      require(cudaGraphLaunch(exec_, stream_.get()), "cudaGraphLaunch");
    } else {
      require(gpu::direct(placed_.call(), stream_.get()), "the direct path");
    }
    wait_for(stream_.get());
    require(placed_.wrong(), "the result");
  }

 private:
  std::string road_;
  gpu::Placed<Data> placed_;
  Stream stream_;
  std::optional<ai::Executable> executable_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

std::unique_ptr<Work> make_work(const std::string& road, bool is_forward, ai::ActKind act,
                                ai::BiasKind bias) {
  support::Case c{32, 32, 32, bias, act};
  c.with_z = !is_forward;  // a forward call that saves Z would not be fused
  if (is_forward) return std::make_unique<WorkOn<support::ForwardData>>(road, c);
  return std::make_unique<WorkOn<support::BackwardData>>(road, c);
}

void begin_all(const std::string& road) {
  for (const ai::ActKind act : support::kActs) {
    for (const ai::BiasKind bias : support::kBiasKinds) {
      for (const bool is_forward : {true, false}) {
        try {
          make_work(road, is_forward, act, bias)->begin();
        } catch (const Failure& failure) {
          throw Failure{std::string(is_forward ? "forward " : "backward ") + ai::to_string(act) +
                        " " + ai::to_string(bias) + ": " + failure.text};
        }
      }
    }
  }
}

/// `work`, which has begun, goes on while a kernel of one block runs that does not end.
void go_on_beside_endless_kernel(Work& work) {
  const Stream stream;
  int* flag = nullptr;
  require(cudaHostAlloc(reinterpret_cast<void**>(&flag), sizeof *flag, cudaHostAllocMapped),
          "a flag");
  *flag = 1;
  // Once with an end, since loading this kernel may have to wait for others.
  require(gpu::enqueue_wait_for(flag, 0, stream.get()), "the endless kernel");
  require(cudaStreamSynchronize(stream.get()), "the endless kernel");
  *flag = 0;
  require(gpu::enqueue_wait_for(flag, 20'000'000'000, stream.get()), "the endless kernel");
  std::optional<Failure> failure;
  try {
    // Often enough for a direct call to become a graph.
    for (int i = 0; i < 12; ++i) work.again();
    if (cudaStreamQuery(stream.get()) != cudaErrorNotReady) {
      throw Failure{"something has waited for the endless kernel"};
    }
    (void)cudaGetLastError();
  } catch (Failure& caught) {
    failure = std::move(caught);
  }
  *static_cast<volatile int*>(flag) = 1;
  require(cudaStreamSynchronize(stream.get()), "the endless kernel");
  (void)cudaFreeHost(flag);
  if (failure) throw Failure{"beside an endless kernel: " + failure->text};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: %s ROAD DIRECTION ACTIVATION BIAS [then-all] [then-beside] "
                 "[then-reset]\n",
                 argv[0]);
    return 2;
  }
  const std::string road = argv[1];
  try {
    std::unique_ptr<Work> first = make_work(road, std::string_view(argv[2]) == "forward",
                                            static_cast<ai::ActKind>(std::atoi(argv[3])),
                                            static_cast<ai::BiasKind>(std::atoi(argv[4])));
    first->begin();
    for (int i = 5; i < argc; ++i) {
      if (std::string_view(argv[i]) == "then-all") begin_all(road);
      if (std::string_view(argv[i]) == "then-beside") go_on_beside_endless_kernel(*first);
      if (std::string_view(argv[i]) == "then-reset") {
        for (int repeat = 0; repeat < 12; ++repeat) first->again();
        require(cudaDeviceReset(), "cudaDeviceReset");
        (void)first.release();  // what it owns is gone
      }
    }
  } catch (const Failure& failure) {
    std::printf("%s\n", failure.text.c_str());
    return 1;
  }
  return 0;
}
