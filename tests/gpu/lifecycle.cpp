// What an executable promises beside its numbers: captures of others, failures, threads, lifetime.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ai/ai.hpp"
#include "lifecycle_kernels.hpp"

namespace {

constexpr long long kMillisecond = 1'000'000;

/// A stream of the caller's.
class OwnStream {
 public:
  OwnStream() {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~OwnStream() { (void)cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

float* device_buffer(const std::vector<float>& values) {
  void* data = nullptr;
  REQUIRE(cudaMalloc(&data, values.size() * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMemcpy(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  return static_cast<float*>(data);
}

std::vector<float> download(const float* data, std::size_t count) {
  std::vector<float> values(count);
  REQUIRE(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  return values;
}

/// Y = A B with A [kM,kK] of 0.5 and B [kK,kN] of 2, so that each element is kK.
struct Layer {
  static constexpr int kM = 24, kN = 40, kK = 56;
  float* a = device_buffer(std::vector<float>(kM * kK, 0.5F));
  float* b = device_buffer(std::vector<float>(kK * kN, 2.0F));
  float* y = device_buffer(std::vector<float>(kM * kN, -1.0F));

  Layer() = default;
  ~Layer() {
    for (float* data : {a, b, y}) (void)cudaFree(data);
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] ai::Tensor out() const { return ai::make_tensor_2d(y, {kM, kN}); }
  [[nodiscard]] ai::Program program(ai::ActKind act = ai::ActKind::None) const {
    const auto plan = ai::plan_forward({.A = ai::make_tensor_2d(a, {kM, kK}),
                                        .B = ai::make_tensor_2d(b, {kK, kN}),
                                        .Y = out(),
                                        .attrs = {.act = act}});
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    return program;
  }
  void clear() const { REQUIRE(cudaMemset(y, 0, kM * kN * sizeof(float)) == cudaSuccess); }
  /// Whether every element is `expected`.
  [[nodiscard]] bool holds(float expected) const {
    for (const float value : download(y, kM * kN)) {
      if (value != expected) return false;
    }
    return true;
  }
};

constexpr ai::CaptureOptions kQuick{.tuning = ai::Tuning::Off};

ai::Executable captured(const ai::Program& program) {
  ai::Result<ai::Executable> executable = ai::capture(program, kQuick);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(executable).value();
}

ai::UserStep user_step(const Layer& layer, std::function<ai::Status(const ai::StepContext&)> cuda) {
  ai::UserStep step;
  step.name = "mine";
  step.reads = {layer.out()};
  step.writes = {layer.out()};
  step.cuda = std::move(cuda);
  return step;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

TEST_CASE("A7: launch, capture and destruction inside the caller's capture leave it intact") {
  const Layer layer;
  const OwnStream stream;
  const OwnStream other;
  ai::Executable executable = captured(layer.program());
  auto dying = std::make_unique<ai::Executable>(captured(layer.program()));
  REQUIRE(dying->launch(other.get()).ok());
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    REQUIRE(cudaStreamBeginCapture(stream.get(), mode) == cudaSuccess);
    CHECK(executable.launch(stream.get()).code() == ai::StatusCode::CaptureActive);
    CHECK(executable.wait().ok());
    dying = std::make_unique<ai::Executable>(captured(layer.program()));  // and one is destroyed
    CHECK(dying->launch(other.get()).ok());
    REQUIRE(gpu::enqueue_spin(1000, stream.get()) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
    std::size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
    CHECK(nodes == 1);
    (void)cudaGraphDestroy(graph);
  }
  CHECK(executable.launch(stream.get()).ok());
  CHECK(executable.wait().ok());
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A7: the legacy stream is refused while a blocking stream is being captured") {
  const Layer layer;
  ai::Executable executable = captured(layer.program());
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(executable.launch(nullptr).code() == ai::StatusCode::CaptureActive);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(blocking, &graph) == cudaSuccess);
  (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(blocking);
  CHECK(executable.launch(nullptr).ok());
  CHECK(executable.wait().ok());
  CHECK(layer.holds(Layer::kK));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE(
    "A6: a user step that throws, fails or synchronises the stream is named, and all goes on") {
  const Layer layer;
  const auto broken = [&](std::function<ai::Status(const ai::StepContext&)> cuda) {
    ai::Program program = layer.program();
    REQUIRE(program.add(user_step(layer, std::move(cuda))).ok());
    const ai::Status status = ai::capture(program, kQuick).status();
    CHECK(status.message().find("'mine'") != std::string::npos);
    CHECK(cudaGetLastError() == cudaSuccess);
    return status;
  };
  for (int round = 0; round < 20; ++round) {
    CHECK(broken([](const ai::StepContext&) -> ai::Status { throw std::runtime_error("boom"); })
              .message()
              .find("boom") != std::string::npos);
    CHECK(broken([](const ai::StepContext&) -> ai::Status {
            return {ai::StatusCode::Unsupported, "not today"};
          }).code() == ai::StatusCode::Unsupported);
    CHECK(!broken([](const ai::StepContext& context) -> ai::Status {
             (void)cudaStreamSynchronize(context.stream);
             return {};
           }).ok());
    CHECK(!broken([](const ai::StepContext& context) -> ai::Status {
             cudaGraph_t graph = nullptr;
             (void)cudaStreamEndCapture(context.stream, &graph);
             return {};
           }).ok());
  }
  ai::Program program = layer.program();
  REQUIRE(program
              .add(user_step(layer,
                             [](const ai::StepContext& context) -> ai::Status {
                               auto* data = static_cast<float*>(context.writes[0].data);
                               const cudaError_t error = gpu::enqueue_scale(
                                   data, Layer::kM * Layer::kN, 0.5F, context.stream);
                               if (error == cudaSuccess) return {};
                               return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
                             }))
              .ok());
  ai::Executable executable = captured(program);
  REQUIRE(executable.launch().ok());
  REQUIRE(executable.wait().ok());
  CHECK(layer.holds(Layer::kK * 0.5F));
}

/// Does something again and again on a thread of its own, until it is stopped.
class Bystander {
 public:
  explicit Bystander(std::function<bool()> turn)
      : thread_([this, turn = std::move(turn)] {
          while (!stop_) {
            if (!turn()) ++errors_;
            ++turns_;
          }
        }) {}
  ~Bystander() { stop(); }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] int turns() const { return turns_; }
  [[nodiscard]] int errors() const { return errors_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> turns_{0};
  std::atomic<int> errors_{0};
  std::thread thread_;
};

TEST_CASE("A3: captures and another thread's work on the legacy stream do not disturb each other") {
  const Layer layer;
  Bystander bystander([] {
    void* data = nullptr;
    const bool good = cudaMalloc(&data, 4096) == cudaSuccess &&
                      cudaMemsetAsync(data, 0, 4096, nullptr) == cudaSuccess &&
                      cudaStreamSynchronize(nullptr) == cudaSuccess;
    return cudaFree(data) == cudaSuccess && good;
  });
  for (int i = 0; i < 200; ++i) (void)captured(layer.program());
  bystander.stop();
  CHECK(bystander.errors() == 0);
  CHECK(bystander.turns() > 0);
}

// The other thread's call comes while this one waits inside the capture. Left to race, it crashes
// inside the driver (580.159, cuCtxSynchronize), with captures of bare CUDA just as well.
TEST_CASE("A4: a capture that another thread's cudaDeviceSynchronize breaks is begun again") {
  const Layer layer;
  int breaks = 0;
  int attempts = 0;
  ai::Program program = layer.program();
  REQUIRE(program
              .add(user_step(layer,
                             [&](const ai::StepContext& context) -> ai::Status {
                               if (++attempts <= breaks) {
                                 std::thread([] {
                                   CHECK(cudaDeviceSynchronize() != cudaSuccess);
                                   (void)cudaGetLastError();
                                 }).join();
                               }
                               auto* data = static_cast<float*>(context.writes[0].data);
                               const cudaError_t error = gpu::enqueue_scale(
                                   data, Layer::kM * Layer::kN, 2.0F, context.stream);
                               if (error == cudaSuccess) return {};
                               return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
                             }))
              .ok());
  for (breaks = 0; breaks <= kQuick.capture_retries; ++breaks) {
    attempts = 0;
    ai::Executable executable = captured(program);
    CHECK(attempts == breaks + 1);
    REQUIRE(executable.launch().ok());
    REQUIRE(executable.wait().ok());
    CHECK(layer.holds(2 * Layer::kK));
  }
  for (int round = 0; round < 20; ++round) {
    attempts = 0;
    breaks = 100;
    CHECK(ai::capture(program, kQuick).status().code() == ai::StatusCode::CaptureInvalidated);
    CHECK(attempts == kQuick.capture_retries + 1);
    CHECK(cudaGetLastError() == cudaSuccess);
    breaks = 0;
    CHECK(captured(program).launch().ok());
  }
}

TEST_CASE("B9: destruction in flight neither blocks, nor loses the launch, nor frees too early") {
  const Layer layer;
  const OwnStream unrelated;
  REQUIRE(gpu::enqueue_spin(1500 * kMillisecond, unrelated.get()) == cudaSuccess);
  // The temporary holds the product while the step between spins: freed early, it would be churned.
  ai::Program program;
  const auto hidden = program.temporary(layer.out().desc);
  REQUIRE(hidden.ok());
  const auto plan = ai::plan_forward({.A = ai::make_tensor_2d(layer.a, {Layer::kM, Layer::kK}),
                                      .B = ai::make_tensor_2d(layer.b, {Layer::kK, Layer::kN}),
                                      .Y = *hidden});
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  REQUIRE(program.add(*plan).ok());
  ai::UserStep copy;
  copy.name = "spin and copy";
  copy.reads = {*hidden};
  copy.writes = {layer.out()};
  copy.cuda = [](const ai::StepContext& context) -> ai::Status {
    (void)gpu::enqueue_spin(200 * kMillisecond, context.stream);
    const cudaError_t error = cudaMemcpyAsync(context.writes[0].data, context.reads[0].data,
                                              Layer::kM * Layer::kN * sizeof(float),
                                              cudaMemcpyDeviceToDevice, context.stream);
    if (error == cudaSuccess) return {};
    return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
  };
  REQUIRE(program.add(copy).ok());
  const auto start = std::chrono::steady_clock::now();
  double destroyed_ms = 0.0;
  {
    cudaStream_t gone = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking) == cudaSuccess);
    ai::Executable executable = captured(program);
    REQUIRE(executable.launch(gone).ok());
    REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
    const auto before = std::chrono::steady_clock::now();
    { const ai::Executable dying = std::move(executable); }
    destroyed_ms = milliseconds_since(before);
  }
  CHECK(destroyed_ms < 100.0);
  // Whatever was freed too early is handed out again here, and overwritten.
  for (int i = 0; i < 8; ++i) {
    ai::Executable churn = captured(program);
    void* data = nullptr;
    REQUIRE(cudaMallocAsync(&data, 64 << 20, unrelated.get()) == cudaSuccess);
  }
  CHECK(milliseconds_since(start) < 1400.0);  // nothing has waited for the unrelated kernel
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(layer.holds(Layer::kK));
}

TEST_CASE("B2: capturing, launching and destroying keeps no device memory") {
  const Layer layer;
  const auto free_bytes = [] {
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    return static_cast<long long>(free);
  };
  const ai::Program program = layer.program(ai::ActKind::ELU);
  long long before = 0;
  for (int i = 0; i < 300; ++i) {
    if (i == 50) before = free_bytes();
    ai::Executable executable = captured(program);
    REQUIRE(executable.launch().ok());
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(before - free_bytes() < (2LL << 20));
}

TEST_CASE("B7 B8: launches from threads that never touched CUDA, on streams of their own") {
  const Layer layer;
  ai::Executable executable = captured(layer.program());
  CHECK(!executable.nodes().empty());
  const OwnStream stream;
  ai::Status status(ai::StatusCode::Invalid, "not run");
  std::thread thread([&] { status = executable.launch(stream.get()); });
  thread.join();
  CHECK_MESSAGE(status.ok(), status.to_string());
  CHECK(executable.wait().ok());
  CHECK(layer.holds(Layer::kK));

  // Two executables over one program at once share no scratch.
  const Layer second;
  ai::Executable other = captured(second.program());
  layer.clear();
  second.clear();
  const auto hammer = [](ai::Executable& mine) {
    const OwnStream own;
    for (int i = 0; i < 1000; ++i) (void)mine.launch(own.get());
    (void)mine.wait();
  };
  std::thread a([&] { hammer(executable); });
  std::thread b([&] { hammer(other); });
  a.join();
  b.join();
  CHECK(layer.holds(Layer::kK));
  CHECK(second.holds(Layer::kK));
}

TEST_CASE("C4: NaN before an activation is NaN after it, tuned or not") {
  const Layer layer;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(cudaMemcpy(layer.a, &nan, sizeof nan, cudaMemcpyHostToDevice) == cudaSuccess);
  for (const ai::Tuning tuning : {ai::Tuning::Off, ai::Tuning::Measure}) {
    for (int kind = 0; kind <= static_cast<int>(ai::ActKind::Tanh); ++kind) {
      const auto act = static_cast<ai::ActKind>(kind);
      CAPTURE(ai::to_string(act));
      ai::Result<ai::Executable> executable =
          ai::capture(layer.program(act), {.tuning = tuning, .tuning_budget_s = 0.1});
      REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
      REQUIRE(executable->launch().ok());
      REQUIRE(executable->wait().ok());
      const std::vector<float> y = download(layer.y, Layer::kM * Layer::kN);
      for (int i = 0; i < Layer::kM * Layer::kN; ++i) {
        const bool is_nan = y[static_cast<std::size_t>(i)] != y[static_cast<std::size_t>(i)];
        REQUIRE(is_nan == (i < Layer::kN));
      }
    }
  }
}

TEST_CASE(
    "D6: a thousand replays give the same bits, as does enqueuing the steps without a graph") {
  constexpr int kRows = 1003, kCols = 50;
  std::vector<float> values(kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 2654435761U) % 10007U) / 10007.0F - 0.5F;
  }
  float* gy = device_buffer(values);
  float* z = device_buffer(values);
  float* a = device_buffer(std::vector<float>(kRows * 7, 0.3F));
  float* b = device_buffer(std::vector<float>(7 * kCols, 0.1F));
  float* gb = device_buffer(std::vector<float>(7 * kCols));
  float* gbias = device_buffer(std::vector<float>(kCols));
  const auto plan = ai::plan_backward({.A = ai::make_tensor_2d(a, {kRows, 7}),
                                       .B = ai::make_tensor_2d(b, {7, kCols}),
                                       .gY = ai::make_tensor_2d(gy, {kRows, kCols}),
                                       .Z = ai::make_tensor_2d(z, {kRows, kCols}),
                                       .gB = ai::make_tensor_2d(gb, {7, kCols}),
                                       .gBias = ai::make_tensor_1d(gbias, kCols),
                                       .attrs = {.act = ai::ActKind::SiLU}});
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  ai::Program program;
  REQUIRE(program.add(*plan).ok());
  ai::Executable executable = captured(program);
  std::vector<float> first;
  const auto same = [&] {
    std::vector<float> now = download(gb, 7 * kCols);
    const std::vector<float> bias = download(gbias, kCols);
    now.insert(now.end(), bias.begin(), bias.end());
    if (first.empty()) first = now;
    return now == first;
  };
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(executable.launch().ok());
    REQUIRE(executable.wait().ok());
    REQUIRE(same());
  }
  REQUIRE(cudaMemset(gb, 0, 7 * kCols * sizeof(float)) == cudaSuccess);
  REQUIRE(executable.enqueue().ok());
  REQUIRE(executable.wait().ok());
  CHECK(same());
  for (float* data : {gy, z, a, b, gb, gbias}) (void)cudaFree(data);
}

}  // namespace
