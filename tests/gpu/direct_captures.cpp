// The direct path inside captures of the caller's.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "callers_graph.hpp"
#include "device_memory.hpp"
#include "gradient_layer.hpp"
#include "layer.hpp"
#include "placed_case.hpp"

namespace {

using gpu::CallersGraph;
using gpu::Churn;
using gpu::GradientLayer;
using gpu::is_capturing;
using gpu::Layer;
using gpu::OwnStream;
using gpu::PlacedBackward;
using gpu::PlacedForward;

constexpr cudaStreamCaptureMode kModes[] = {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};

TEST_CASE("A7: direct calls on a capturing stream are recorded and leave the capture intact") {
  PlacedForward forward(gpu::layer_case());
  PlacedBackward backward(gpu::layer_case());
  const OwnStream stream;
  const OwnStream other;
  PlacedForward outside(gpu::layer_case());
  // Each mode once with everything still to be planned and loaded, and once more.
  for (const bool is_known : {false, true}) {
    for (const cudaStreamCaptureMode mode : kModes) {
      CAPTURE(is_known);
      CAPTURE(static_cast<int>(mode));
      if (!is_known) ai::gemm::clear_plan_cache();
      REQUIRE(forward.upload() == cudaSuccess);
      REQUIRE(backward.upload() == cudaSuccess);
      REQUIRE(outside.upload() == cudaSuccess);
      REQUIRE(cudaStreamBeginCapture(stream.get(), mode) == cudaSuccess);
      const ai::Status first = ai::gemm::forward(forward.call(), stream.get());
      CHECK_MESSAGE(first.ok(), first.to_string());
      CHECK(is_capturing(stream.get()));
      const ai::Status second = ai::gemm::backward(backward.call(), stream.get());
      CHECK_MESSAGE(second.ok(), second.to_string());
      CHECK(is_capturing(stream.get()));
      // On a stream that is not captured a call runs at once.
      const ai::Status beside = ai::gemm::forward(outside.call(), other.get());
      CHECK_MESSAGE(beside.ok(), beside.to_string());
      CHECK(is_capturing(stream.get()));
      CallersGraph graph;
      graph.take(stream.get());
      for (const cudaGraphNodeType type : graph.types()) {
        CHECK(type != cudaGraphNodeTypeMemAlloc);
        CHECK(type != cudaGraphNodeTypeMemFree);
      }
      // Forward at least one kernel; backward gZ, gA and gB.
      CHECK(graph.types().size() >= 4);
      REQUIRE(cudaStreamSynchronize(other.get()) == cudaSuccess);
      CHECK(outside.wrong() == "");
      for (int replay = 0; replay < 3; ++replay) {
        REQUIRE(forward.upload() == cudaSuccess);
        REQUIRE(backward.upload() == cudaSuccess);
        graph.launch_and_wait(stream.get());
        CHECK(forward.wrong() == "");
        CHECK(backward.wrong() == "");
      }
    }
  }
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A7: direct calls on a stream that joined the caller's capture become a branch of it") {
  PlacedForward left(gpu::layer_case());
  PlacedBackward right(gpu::layer_case());
  REQUIRE(left.upload() == cudaSuccess);
  REQUIRE(right.upload() == cudaSuccess);
  const OwnStream origin;
  const OwnStream joined;
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&join, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(origin.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, origin.get()) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(joined.get(), fork, 0) == cudaSuccess);
  CHECK(ai::gemm::forward(left.call(), origin.get()).ok());
  CHECK(ai::gemm::backward(right.call(), joined.get()).ok());
  REQUIRE(cudaEventRecord(join, joined.get()) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(origin.get(), join, 0) == cudaSuccess);
  CallersGraph graph;
  graph.take(origin.get());
  graph.launch_and_wait(origin.get());
  CHECK(left.wrong() == "");
  CHECK(right.wrong() == "");
  (void)cudaEventDestroy(fork);
  (void)cudaEventDestroy(join);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A6 A7: a direct call that is refused leaves the caller's capture intact") {
  const Layer layer;
  PlacedForward good(gpu::layer_case());
  REQUIRE(good.upload() == cudaSuccess);
  ai::GemmForward misshapen = layer.call();
  misshapen.B = ai::make_tensor_2d(layer.b, {Layer::kK + 1, Layer::kN});
  ai::GemmForward elsewhere = layer.call();
  const std::vector<float> host(Layer::kM * Layer::kK);
  elsewhere.A = ai::make_tensor_2d(host.data(), {Layer::kM, Layer::kK});
  const OwnStream stream;
  for (const cudaStreamCaptureMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    REQUIRE(cudaStreamBeginCapture(stream.get(), mode) == cudaSuccess);
    CHECK(ai::gemm::forward(misshapen, stream.get()).code() == ai::StatusCode::ShapeMismatch);
    CHECK(is_capturing(stream.get()));
    CHECK(ai::gemm::forward(elsewhere, stream.get()).code() == ai::StatusCode::DeviceMismatch);
    CHECK(is_capturing(stream.get()));
    CHECK(ai::gemm::forward(good.call(), stream.get()).ok());
    CallersGraph graph;
    graph.take(stream.get());
    REQUIRE(good.upload() == cudaSuccess);
    graph.launch_and_wait(stream.get());
    CHECK(good.wrong() == "");
  }
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A7: a direct call on the legacy stream is refused while a blocking stream is captured") {
  const Layer layer;
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    if (!is_known) ai::gemm::clear_plan_cache();
    REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const ai::Status refused = ai::gemm::forward(layer.call(), nullptr);
    CHECK_MESSAGE(refused.code() == ai::StatusCode::CaptureActive, refused.to_string());
    CHECK(is_capturing(blocking));
    CHECK(ai::gemm::forward(layer.call(), blocking).ok());
    CallersGraph graph;
    graph.take(blocking);
    layer.clear();
    graph.launch_and_wait(blocking);
    CHECK(layer.holds(Layer::kK));
    layer.clear();
    CHECK(ai::gemm::forward(layer.call(), nullptr).ok());
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(layer.holds(Layer::kK));
  }
  (void)cudaStreamDestroy(blocking);
  CHECK(cudaGetLastError() == cudaSuccess);
}

/// Captures `layer`, lets go of everything but the executable, fills memory anew and replays.
void replay_over_churn(const GradientLayer& layer) {
  const OwnStream stream;
  const OwnStream other;
  ai::gemm::clear_plan_cache();  // what earlier calls keep would be freed between the two readings
  const long long before = gpu::settled_free_bytes();
  CallersGraph graph;
  REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(ai::gemm::backward(layer.call(), stream.get()).ok());
  graph.take(stream.get());
  graph.destroy_graph();
  ai::gemm::clear_plan_cache();
  CHECK(before - gpu::settled_free_bytes() >= static_cast<long long>(layer.scratch_bytes()));
  const Churn churn(8, layer.scratch_bytes());
  std::vector<ai::Executable> poisons;
  for (int i = 0; i < 4; ++i) {
    poisons.push_back(gpu::captured(gpu::poisoning_program(layer.scratch_bytes())));
    REQUIRE(poisons.back().launch(other.get()).ok());
    REQUIRE(poisons.back().wait().ok());
  }
  for (int i = 0; i < 3; ++i) {
    layer.clear();
    graph.launch_and_wait(stream.get());
    CHECK(layer.wrong() == "");
  }
  CHECK(churn.intact());
}

// gZ takes 32 MiB: freed too early, or never, it would show.
TEST_CASE("A7: scratch of a captured direct call lives and dies with the caller's executable") {
  const GradientLayer layer(2048, 4096, 8);
  replay_over_churn(layer);  // once for what is loaded and allocated for good
  const long long before = gpu::settled_free_bytes();
  replay_over_churn(layer);
  // CUDA lets go of what a graph retained on a thread of its own.
  long long lost = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  do {
    lost = before - gpu::settled_free_bytes();
  } while (lost >= (2LL << 20) && std::chrono::steady_clock::now() < end);
  CAPTURE(lost);
  CHECK(lost < (2LL << 20));
}

TEST_CASE(
    "A7: a captured direct call may be replayed in flight while its executable is destroyed") {
  const GradientLayer layer(512, 1024, 8);
  const OwnStream stream;
  const OwnStream other;
  layer.clear();
  {
    CallersGraph graph;
    REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(gpu::enqueue_spin(50'000'000, stream.get()) == cudaSuccess);
    CHECK(ai::gemm::backward(layer.call(), stream.get()).ok());
    graph.take(stream.get());
    graph.launch(stream.get());
  }
  ai::gemm::clear_plan_cache();
  std::vector<ai::Executable> poisons;
  for (int i = 0; i < 4; ++i) {
    poisons.push_back(gpu::captured(gpu::poisoning_program(layer.scratch_bytes())));
    REQUIRE(poisons.back().launch(other.get()).ok());
  }
  for (ai::Executable& poison : poisons) REQUIRE(poison.wait().ok());
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(layer.wrong() == "");
}

}  // namespace
