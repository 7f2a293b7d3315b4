// Executables that are destroyed while a launch of theirs runs.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "device_memory.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"

namespace {

using gpu::captured;
using gpu::Layer;
using gpu::OwnStream;
using gpu::poisoning_program;

constexpr long long kMillisecond = 1'000'000;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Destroys an executable of `program` while it waits, for kFlightMs, between writing its temporary
/// and copying it to the layer's Y. Meanwhile other executables ask for as much memory as it had
/// and fill it with NaN: freed too early, that reaches Y.
constexpr double kFlightMs = 400.0;
void destroy_in_flight(const Layer& layer, const ai::Program& program) {
  const OwnStream unrelated;
  const OwnStream other;
  {  // Loading a kernel for the first time may wait for all that runs on the device.
    ai::Executable warm = captured(program);
    REQUIRE(warm.launch(other.get()).ok());
    REQUIRE(warm.wait().ok());
    ai::Executable poison = captured(poisoning_program(warm.workspace_bytes()));
    REQUIRE(poison.launch(other.get()).ok());
    REQUIRE(poison.wait().ok());
  }
  layer.clear();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(gpu::enqueue_spin(1500 * kMillisecond, unrelated.get()) == cudaSuccess);

  const auto start = std::chrono::steady_clock::now();
  std::size_t bytes = 0;
  double destroyed_ms = 0.0;
  std::chrono::steady_clock::time_point launched;
  {
    cudaStream_t gone = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking) == cudaSuccess);
    ai::Executable executable = captured(program);
    bytes = executable.workspace_bytes();
    launched = std::chrono::steady_clock::now();
    REQUIRE(executable.launch(gone).ok());
    REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
    const auto before = std::chrono::steady_clock::now();
    { const ai::Executable dying = std::move(executable); }
    destroyed_ms = milliseconds_since(before);
  }
  CHECK(destroyed_ms < 100.0);
  REQUIRE(bytes >= Layer::kM * Layer::kN * sizeof(float));
  std::vector<ai::Executable> churn;
  for (int i = 0; i < 4; ++i) {
    churn.push_back(captured(poisoning_program(bytes)));
    REQUIRE(churn.back().launch(other.get()).ok());
  }
  for (ai::Executable& executable : churn) REQUIRE(executable.wait().ok());
  // Later is no fault: the pool may hand memory on in the order of the work that still uses it.
  WARN(milliseconds_since(launched) < kFlightMs);
  CHECK(milliseconds_since(start) < 1400.0);  // nothing has waited for the unrelated kernel
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(layer.holds(Layer::kK));
}

cudaError_t enqueue_flight(cudaStream_t stream) {
  return gpu::enqueue_spin(static_cast<long long>(kFlightMs) * kMillisecond, stream);
}

TEST_CASE("B9: destruction in flight neither blocks, nor loses the launch, nor frees too early") {
  const Layer layer;
  destroy_in_flight(layer, layer.program_through_temporary(ai::ActKind::None, enqueue_flight));
}

ai::Program with_host_function(const Layer& layer, std::atomic<int>& calls) {
  return layer.program_through_temporary(ai::ActKind::None, [&calls](cudaStream_t stream) {
    const cudaError_t error = enqueue_flight(stream);
    if (error != cudaSuccess) return error;
    return cudaLaunchHostFunc(
        stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls);
  });
}

// A host function cannot be switched off in an executable: another road to the end of the launch.
TEST_CASE("B9: destruction in flight of an executable with a host function, likewise") {
  const Layer layer;
  std::atomic<int> calls{0};
  const ai::Program program = with_host_function(layer, calls);
  const std::vector<ai::Node> nodes = captured(program).nodes();
  REQUIRE(std::any_of(nodes.begin(), nodes.end(),
                      [](const ai::Node& node) { return node.kind == "host"; }));
  destroy_in_flight(layer, program);
  CHECK(calls == 2);  // one of them to warm up
}

/// What an executable of `program` holds, destroyed in flight, is there as long as the launch runs
/// and goes with the next wait after it.
void hold_in_flight(const Layer& layer, const ai::Program& program) {
  const OwnStream stream;
  const OwnStream other;
  ai::Executable later = captured(layer.program());
  REQUIRE(later.launch(other.get()).ok());
  REQUIRE(later.wait().ok());
  std::atomic<bool> gone{false};
  const auto thing = [&gone] {
    return std::shared_ptr<const void>(&gone, [&gone](const void*) { gone = true; });
  };
  {
    ai::Executable warm = captured(program);
    warm.hold(thing());
    REQUIRE(warm.launch(stream.get()).ok());
    REQUIRE(warm.wait().ok());
    CHECK(!gone);
  }
  CHECK(gone);  // at once where nothing is running
  gone = false;
  {
    ai::Executable executable = captured(program);
    executable.hold(thing());
    REQUIRE(executable.launch(stream.get()).ok());
  }
  int looks = 0;
  while (cudaStreamQuery(stream.get()) == cudaErrorNotReady) {
    // The spin itself is seen to run before and after.
    REQUIRE(later.wait().ok());
    const bool was_gone = gone;
    if (cudaStreamQuery(stream.get()) != cudaErrorNotReady) break;
    REQUIRE(!was_gone);
    ++looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  (void)cudaGetLastError();
  CHECK(looks > 10);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  // CUDA says that a graph is gone on a thread of its own, soon.
  const auto start = std::chrono::steady_clock::now();
  while (!gone && milliseconds_since(start) < 5000.0) {
    REQUIRE(later.wait().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(gone);
  CHECK(layer.holds(Layer::kK));
}

TEST_CASE("B9: what an executable holds outlives a launch in flight, and goes after it") {
  const Layer layer;
  hold_in_flight(layer, layer.program_through_temporary(ai::ActKind::None, enqueue_flight));
}

TEST_CASE("B9: what an executable with a host function holds, likewise") {
  const Layer layer;
  std::atomic<int> calls{0};
  hold_in_flight(layer, with_host_function(layer, calls));
  CHECK(calls == 2);
}

}  // namespace
