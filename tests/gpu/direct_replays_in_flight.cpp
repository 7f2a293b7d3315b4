// Direct calls that come again and again: their graphs beside work in flight and captures of the
// caller's.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "callers_graph.hpp"
#include "device_memory.hpp"
#include "gradient_layer.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"

namespace {

using gpu::CallersGraph;
using gpu::GradientLayer;
using gpu::is_capturing;
using gpu::Layer;
using gpu::OwnStream;

constexpr int kGraphFrom = 8;  // DirectPath::kGraphFrom
constexpr long long kMillisecond = 1'000'000;

/// Replays of a call that is repeated already, in flight behind a spinning kernel, lose their
/// graph: the cache is cleared, or the thread that made them ends. Their stream is gone by then
/// too.
void check_destruction_in_flight(bool by_end_of_thread) {
  const GradientLayer layer(256, 512, 16);
  const OwnStream busy;
  const OwnStream other;
  {
    ai::Executable poison = gpu::captured(gpu::poisoning_program(layer.scratch_bytes()));
    REQUIRE(poison.launch(other.get()).ok());
    REQUIRE(poison.wait().ok());
  }
  cudaEvent_t done = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming) == cudaSuccess);
  std::chrono::steady_clock::time_point start;
  const auto call = [&] {
    const OwnStream warm;
    for (int i = 0; i < kGraphFrom + 2; ++i) {
      REQUIRE(ai::gemm::backward(layer.call(), warm.get()).ok());
    }
    REQUIRE(cudaStreamSynchronize(warm.get()) == cudaSuccess);
    layer.clear();
    const OwnStream gone;
    start = std::chrono::steady_clock::now();
    REQUIRE(gpu::enqueue_spin(200 * kMillisecond, busy.get()) == cudaSuccess);
    REQUIRE(gpu::enqueue_spin(200 * kMillisecond, gone.get()) == cudaSuccess);
    for (int i = 0; i < 3; ++i) REQUIRE(ai::gemm::backward(layer.call(), gone.get()).ok());
    REQUIRE(cudaEventRecord(done, gone.get()) == cudaSuccess);
  };
  if (by_end_of_thread) {
    std::thread(call).join();
  } else {
    call();
    ai::gemm::clear_plan_cache();
  }
  const double waited_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  CHECK(waited_ms < 150.0);
  std::vector<ai::Executable> poisons;
  for (int i = 0; i < 4; ++i) {
    poisons.push_back(gpu::captured(gpu::poisoning_program(layer.scratch_bytes())));
    REQUIRE(poisons.back().launch(other.get()).ok());
  }
  for (ai::Executable& poison : poisons) REQUIRE(poison.wait().ok());
  WARN(cudaEventQuery(done) == cudaErrorNotReady);  // else nothing was in flight any more
  (void)cudaGetLastError();
  REQUIRE(cudaEventSynchronize(done) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(busy.get()) == cudaSuccess);
  CHECK(layer.wrong() == "");
  (void)cudaEventDestroy(done);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE(
    "B9: graphs of direct calls go in flight when the cache is cleared, and wait for nothing") {
  check_destruction_in_flight(false);
}

TEST_CASE("B9: graphs of direct calls go in flight when their thread ends, and wait for nothing") {
  const std::size_t graphs = ai::gemm::plan_cache().graphs;
  check_destruction_in_flight(true);
  CHECK(ai::gemm::plan_cache().graphs == graphs);
}

TEST_CASE("A7: a capture that the caller has open elsewhere survives the making of a graph") {
  const GradientLayer layer(64, 96, 32);
  const OwnStream stream;
  const OwnStream open;
  REQUIRE(gpu::enqueue_spin(1000, stream.get()) == cudaSuccess);  // loads the kernel
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed}) {
    for (const bool by_other_thread : {false, true}) {
      CAPTURE(static_cast<int>(mode));
      CAPTURE(by_other_thread);
      ai::gemm::clear_plan_cache();
      const std::size_t graphs = ai::gemm::plan_cache().graphs;
      for (int i = 0; i < kGraphFrom - 1; ++i) {
        REQUIRE(ai::gemm::backward(layer.call(), stream.get()).ok());
      }
      CHECK(ai::gemm::plan_cache().graphs == graphs);
      std::atomic<int> turn{0};
      cudaGraph_t graph = nullptr;
      cudaError_t ended = cudaErrorUnknown;
      const auto begin = [&] {
        REQUIRE(cudaStreamBeginCapture(open.get(), mode) == cudaSuccess);
        REQUIRE(gpu::enqueue_spin(1000, open.get()) == cudaSuccess);
      };
      const auto end = [&] { ended = cudaStreamEndCapture(open.get(), &graph); };
      std::thread other;
      if (by_other_thread) {
        other = std::thread([&] {
          begin();
          turn = 1;
          while (turn != 2) std::this_thread::yield();
          end();
        });
        while (turn != 1) std::this_thread::yield();
      } else {
        begin();
      }
      for (int i = 0; i < 3; ++i) {
        const ai::Status status = ai::gemm::backward(layer.call(), stream.get());
        CHECK_MESSAGE(status.ok(), status.to_string());
      }
      CHECK(ai::gemm::plan_cache().graphs == graphs + 1);
      CHECK(is_capturing(open.get()));
      ai::gemm::clear_plan_cache();  // and its destruction
      CHECK(ai::gemm::plan_cache().graphs == graphs);
      CHECK(is_capturing(open.get()));
      if (by_other_thread) {
        turn = 2;
        other.join();
      } else {
        end();
      }
      CHECK(ended == cudaSuccess);
      std::size_t nodes = 0;
      CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
      CHECK(nodes == 1);
      (void)cudaGraphDestroy(graph);
      REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
      CHECK(layer.wrong() == "");
    }
  }
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE(
    "A7: a call that has a graph is recorded where the caller captures, and refused as before") {
  const Layer layer;
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  for (int i = 0; i < kGraphFrom + 1; ++i) REQUIRE(ai::gemm::forward(layer.call(), nullptr).ok());
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  layer.clear();
  REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(ai::gemm::forward(layer.call(), nullptr).code() == ai::StatusCode::CaptureActive);
  CHECK(ai::gemm::forward(layer.call(), blocking).ok());
  CallersGraph graph;
  graph.take(blocking);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  layer.clear();
  graph.launch_and_wait(blocking);
  CHECK(layer.holds(Layer::kK));
  layer.clear();
  CHECK(ai::gemm::forward(layer.call(), nullptr).ok());
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(layer.holds(Layer::kK));
  (void)cudaStreamDestroy(blocking);
  ai::gemm::clear_plan_cache();
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
