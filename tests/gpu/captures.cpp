// What an executable promises about captures: the caller's, its own that fail, and other threads.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "bystander.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"

namespace {

using gpu::Bystander;
using gpu::captured;
using gpu::kQuick;
using gpu::Layer;
using gpu::OwnStream;
using gpu::user_step;

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

TEST_CASE("D3: an error that the caller has ignored neither fails a program nor is taken from it") {
  const Layer layer;
  const OwnStream stream;
  REQUIRE(cudaSetDevice(999) == cudaErrorInvalidDevice);
  // Not checked where a CUB reduction takes part: CUB reports what is pending as its own failure,
  // so that the slot is cleared before it.
  const auto plan = ai::plan_forward(layer.call(ai::ActKind::GELU));
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  ai::Program program;
  REQUIRE(program.add(*plan).ok());
  ai::Result<ai::Executable> executable = ai::capture(program, kQuick);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  const ai::Status launched = executable->launch(stream.get());
  CHECK_MESSAGE(launched.ok(), launched.to_string());
  const ai::Status waited = executable->wait();
  CHECK_MESSAGE(waited.ok(), waited.to_string());
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(layer.holds(Layer::kK));  // GELU(56) is 56
}

}  // namespace
