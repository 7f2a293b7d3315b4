// Two GPUs in one process: what belongs to one of them does not end up on the other.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "ai/ai.hpp"
#include "callers_graph.hpp"
#include "layer.hpp"

namespace {

using gpu::CallersGraph;

constexpr int kDevices[] = {0, 1};
constexpr int kMoreThanTillAGraph = 20;

// Ends the program before main where there are fewer, as ctest's word for "skipped".
const bool kHasTwo = [] {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count >= 2) return true;
  std::puts("skipped: fewer than two GPUs");
  std::fflush(stdout);
  std::_Exit(77);
}();

/// Makes a device current for as long as it lives.
class Current {
 public:
  explicit Current(int device) {
    REQUIRE(cudaGetDevice(&before_) == cudaSuccess);
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
  }
  ~Current() { (void)cudaSetDevice(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  [[nodiscard]] static int device() {
    int device = -1;
    REQUIRE(cudaGetDevice(&device) == cudaSuccess);
    return device;
  }

 private:
  int before_ = 0;
};

/// A stream of one GPU, whichever is current.
class StreamOf {
 public:
  explicit StreamOf(int device) {
    const Current current(device);
    stream_.emplace();
  }
  [[nodiscard]] cudaStream_t get() const { return stream_->get(); }

 private:
  std::optional<gpu::OwnStream> stream_;
};

/// Memory of one GPU, full of one value.
class Buffer {
 public:
  Buffer(int device, std::int64_t rows, std::int64_t cols, float value)
      : device_(device), rows_(rows), cols_(cols) {
    const Current current(device);
    data_ = gpu::device_buffer(std::vector<float>(count(), value));
  }
  ~Buffer() { (void)cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] ai::Tensor tensor() const {
    return ai::make_tensor_2d(data_, {rows_, cols_}, ai::DType::F32, ai::Device::CUDA, device_);
  }
  void fill(float value) const {
    const Current current(device_);
    const std::vector<float> values(count(), value);
    REQUIRE(cudaMemcpy(data_, values.data(), count() * sizeof(float), cudaMemcpyHostToDevice) ==
            cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  /// Whether every element is `expected`. What writes it on its GPU has ended when this returns.
  [[nodiscard]] bool holds(float expected) const {
    const Current current(device_);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    for (const float value : gpu::download(data_, count())) {
      if (value != expected) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(rows_ * cols_); }
  int device_;
  std::int64_t rows_;
  std::int64_t cols_;
  float* data_ = nullptr;
};

/// 64-256-256-8 with ReLU on one GPU: 1 goes in, 32 comes out, and every sum is exact.
struct Network {
  static constexpr float kResult = 32.0F;
  explicit Network(int device)
      : x(device, 3, 64, 1.0F),
        w1(device, 64, 256, 0.5F),
        w2(device, 256, 256, 1.0F / 256),
        w3(device, 256, 8, 1.0F / 256),
        h1(device, 3, 256, -1.0F),
        h2(device, 3, 256, -1.0F),
        y(device, 3, 8, -1.0F) {}

  [[nodiscard]] ai::Program program() const {
    ai::Program program;
    const auto add = [&](const Buffer& a, const Buffer& b, const Buffer& to) {
      const auto plan = ai::plan_forward({.A = a.tensor(),
                                          .B = b.tensor(),
                                          .Y = to.tensor(),
                                          .attrs = {.act = ai::ActKind::ReLU}});
      REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
      REQUIRE(program.add(*plan).ok());
    };
    add(x, w1, h1);
    add(h1, w2, h2);
    add(h2, w3, y);
    return program;
  }

  Buffer x, w1, w2, w3, h1, h2, y;
};

/// One layer on one GPU: every element of Y is 56. Its gradients are of gY = 1 under ReLU.
struct Layer {
  static constexpr float kResult = 56.0F;
  explicit Layer(int device)
      : a(device, 24, 56, 0.5F),
        b(device, 56, 40, 2.0F),
        y(device, 24, 40, -1.0F),
        z(device, 24, 40, 1.0F),
        gy(device, 24, 40, 1.0F),
        ga(device, 24, 56, -1.0F),
        gbias(device, 1, 40, -1.0F) {}

  [[nodiscard]] ai::GemmForward forward() const {
    return {.A = a.tensor(), .B = b.tensor(), .Y = y.tensor()};
  }
  [[nodiscard]] ai::GemmBackward backward() const {
    return {.A = a.tensor(),
            .B = b.tensor(),
            .gY = gy.tensor(),
            .Z = z.tensor(),
            .gA = ai::Gradient(ga.tensor()),
            .gBias = ai::Gradient(gbias.tensor()),
            .attrs = {.act = ai::ActKind::ReLU}};
  }
  [[nodiscard]] ai::Program program() const {
    const auto plan = ai::plan_forward(forward());
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    return program;
  }
  void reset() const {
    for (const Buffer* output : {&y, &ga, &gbias}) output->fill(-1.0F);
  }
  /// Whether both calls have been carried out since reset().
  [[nodiscard]] bool is_done() const {
    return y.holds(kResult) && ga.holds(80.0F) && gbias.holds(24.0F);
  }
  [[nodiscard]] bool untouched() const {
    return y.holds(-1.0F) && ga.holds(-1.0F) && gbias.holds(-1.0F);
  }

  Buffer a, b, y, z, gy, ga, gbias;
};

void check_mismatch(const ai::Status& status, const std::string& operand) {
  CHECK_MESSAGE(status.code() == ai::StatusCode::DeviceMismatch, status.to_string());
  CHECK_MESSAGE(status.message().starts_with(operand), status.to_string());
}

/// Both GPUs work, and no error of CUDA's is left behind.
void check_well() {
  for (const int device : kDevices) {
    const Current current(device);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

TEST_CASE("B7 F4: a network runs on its own GPU while the other one is current") {
  for (const bool is_tuned : {false, true}) {
    for (const int device : kDevices) {
      CAPTURE(is_tuned);
      CAPTURE(device);
      const Network network(device);
      const Current other(1 - device);
      ai::CaptureOptions options;
      options.tuning = is_tuned ? ai::Tuning::Measure : ai::Tuning::Off;
      options.tuning_cache = "";
      ai::Result<ai::Executable> executable = ai::capture(network.program(), options);
      REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
      CHECK(executable->nodes().size() == 1);
      CHECK(Current::device() == 1 - device);
      const StreamOf own(device);
      for (const cudaStream_t stream : {cudaStream_t{nullptr}, own.get()}) {
        for (const bool as_graph : {true, true, false}) {
          CAPTURE(as_graph);
          network.y.fill(-1.0F);
          const ai::Status status =
              as_graph ? executable->launch(stream) : executable->enqueue(stream);
          REQUIRE_MESSAGE(status.ok(), status.to_string());
          REQUIRE(executable->wait().ok());
          CHECK(network.y.holds(Network::kResult));
          CHECK(Current::device() == 1 - device);
        }
      }
    }
  }
  check_well();
}

TEST_CASE("B7 F4: direct calls run on their tensors' GPU while the other one is current") {
  for (const int device : kDevices) {
    CAPTURE(device);
    const Layer layer(device);
    const Current other(1 - device);
    const StreamOf own(device);
    for (const cudaStream_t stream : {cudaStream_t{nullptr}, own.get()}) {
      ai::gemm::clear_plan_cache();
      for (int i = 0; i < kMoreThanTillAGraph; ++i) {
        layer.reset();
        const ai::Status forward = ai::gemm::forward(layer.forward(), stream);
        REQUIRE_MESSAGE(forward.ok(), forward.to_string());
        const ai::Status backward = ai::gemm::backward(layer.backward(), stream);
        REQUIRE_MESSAGE(backward.ok(), backward.to_string());
        CHECK(layer.is_done());
        CHECK(Current::device() == 1 - device);
      }
      CHECK(ai::gemm::plan_cache().graphs == 2);
    }
  }
  check_well();
}

TEST_CASE("B7 F4: an operand of the other GPU is named, wherever it comes in") {
  const Layer here(0);
  const Layer there(1);
  // By what the tensors say, and by where the memory is.
  ai::GemmForward mixed = here.forward();
  mixed.B = there.b.tensor();
  check_mismatch(ai::gemm::forward(mixed, nullptr), "B ");
  check_mismatch(ai::plan_forward(mixed).status(), "B ");
  mixed.B = here.b.tensor();
  mixed.B.data = there.b.tensor().data;
  check_mismatch(ai::gemm::forward(mixed, nullptr), "B ");
  const auto plan = ai::plan_forward(mixed);
  REQUIRE(plan.ok());
  ai::Program program;
  REQUIRE(program.add(*plan).ok());
  check_mismatch(ai::capture(program, gpu::kQuick).status(), "B of ");

  ai::Executable executable = gpu::captured(here.program());
  const ai::Rebinding moves[] = {{here.b.tensor().data, there.b.tensor().data}};
  CHECK(executable.rebind(moves).code() == ai::StatusCode::DeviceMismatch);
  REQUIRE(executable.launch().ok());
  REQUIRE(executable.wait().ok());
  CHECK(here.y.holds(Layer::kResult));
  CHECK(there.untouched());
  check_well();
}

TEST_CASE("F4: a stream of the other GPU is named by direct calls, whichever way they take") {
  const Layer layer(0);
  const StreamOf foreign(1);
  const StreamOf own(0);
  const auto check_refused = [&] {
    layer.reset();
    check_mismatch(ai::gemm::forward(layer.forward(), foreign.get()), "the stream");
    check_mismatch(ai::gemm::backward(layer.backward(), foreign.get()), "the stream");
    CHECK(cudaStreamSynchronize(foreign.get()) == cudaSuccess);
    CHECK(layer.untouched());
  };
  for (const int current : kDevices) {
    const Current device(current);
    ai::gemm::clear_plan_cache();
    check_refused();
    for (int i = 0; i < kMoreThanTillAGraph; ++i) {
      layer.reset();
      REQUIRE(ai::gemm::forward(layer.forward(), own.get()).ok());
      REQUIRE(ai::gemm::backward(layer.backward(), own.get()).ok());
      CHECK(layer.is_done());
      check_refused();
    }
    CHECK(ai::gemm::plan_cache().graphs == 2);
  }
  check_well();
}

TEST_CASE("F4 A7: a capturing stream of the other GPU is named, and its capture goes on") {
  const Layer layer(0);
  const Layer its_own(1);
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed}) {
    CAPTURE(static_cast<int>(mode));
    const Current other(1);
    const StreamOf foreign(1);
    REQUIRE(cudaStreamBeginCapture(foreign.get(), mode) == cudaSuccess);
    check_mismatch(ai::gemm::forward(layer.forward(), foreign.get()), "the stream");
    check_mismatch(ai::gemm::backward(layer.backward(), foreign.get()), "the stream");
    CHECK(gpu::is_capturing(foreign.get()));
    const ai::Status recorded = ai::gemm::forward(its_own.forward(), foreign.get());
    CHECK_MESSAGE(recorded.ok(), recorded.to_string());
    CallersGraph graph;
    graph.take(foreign.get());
    its_own.y.fill(-1.0F);
    graph.launch_and_wait(foreign.get());
    CHECK(its_own.y.holds(Layer::kResult));
    CHECK(layer.untouched());
  }
  check_well();
}

TEST_CASE("B7: steps are not enqueued on a stream of the other GPU") {
  const Network network(0);
  ai::Executable executable = gpu::captured(network.program());
  const Current other(1);
  const StreamOf foreign(1);
  check_mismatch(executable.enqueue(foreign.get()), "the stream");
  CHECK(cudaStreamSynchronize(foreign.get()) == cudaSuccess);
  CHECK(network.y.holds(-1.0F));
  check_well();
}

}  // namespace
