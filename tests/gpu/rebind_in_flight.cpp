// Rebinding on a GPU while launches run.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lifecycle_kernels.hpp"
#include "rebind_support.hpp"

namespace {

using gpu::captured;
using gpu::download;
using gpu::Floats;
using gpu::Layer;
using gpu::microseconds;
using gpu::OwnStream;
using gpu::rebind;
using gpu::run;

constexpr long long kMillisecond = 1'000'000;

TEST_CASE("a rebind while a launch runs neither waits for it nor disturbs it") {
  const Layer layer;
  const auto spin = [](cudaStream_t stream) {
    return gpu::enqueue_spin(100 * kMillisecond, stream);
  };
  const Floats second(Layer::kM * Layer::kK, 2.0F);
  const Floats out(Layer::kM * Layer::kN, -1.0F);
  const OwnStream stream;
  ai::Executable executable = captured(layer.program_through_temporary(ai::ActKind::None, spin));
  run(executable);  // loads what is loaded at first use
  rebind(executable, {{layer.a, layer.a}});
  layer.clear();
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);

  REQUIRE(executable.launch(stream.get()).ok());
  const double took = microseconds([&] {
    rebind(executable, {{layer.a, second.get()}, {layer.y, out.get()}});
  });
  MESSAGE("a rebind with a launch in flight took ", took, " us");
  CHECK(took < 50'000.0);
  REQUIRE(executable.launch(stream.get()).ok());
  REQUIRE(executable.wait().ok());
  CHECK(layer.holds(Layer::kK));
  const std::vector<float> moved = download(out.get(), Layer::kM * Layer::kN);
  CHECK(std::all_of(moved.begin(), moved.end(), [](float v) { return v == 4.0F * Layer::kK; }));
}

TEST_CASE("a rebind that plans anew waits for the launch that runs, on a stream that is gone") {
  const Layer layer;
  const auto spin = [](cudaStream_t stream) {
    return gpu::enqueue_spin(100 * kMillisecond, stream);
  };
  const Floats odd(Layer::kM * Layer::kK + 1, 2.0F);
  ai::Executable executable = captured(layer.program_through_temporary(ai::ActKind::None, spin));
  run(executable);
  layer.clear();
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  cudaStream_t gone = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(executable.launch(gone).ok());
  REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
  rebind(executable, {{layer.a, odd.get() + 1}});
  CHECK(layer.holds(Layer::kK));  // the old launch is over
  run(executable);
  CHECK(layer.holds(4 * Layer::kK));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("destruction in flight after a rebind in flight loses nothing") {
  const Layer layer;
  const auto spin = [](cudaStream_t stream) {
    return gpu::enqueue_spin(50 * kMillisecond, stream);
  };
  const Floats second(Layer::kM * Layer::kK, 2.0F);
  const OwnStream stream;
  {
    ai::Executable executable = captured(layer.program_through_temporary(ai::ActKind::None, spin));
    REQUIRE(executable.launch(stream.get()).ok());
    rebind(executable, {{layer.a, second.get()}});
    REQUIRE(executable.launch(stream.get()).ok());
  }
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(layer.holds(4 * Layer::kK));
}

TEST_CASE("a host function: updated in place, retained, and refused anew while it may run") {
  const Layer layer;
  int calls = 0;
  const auto count = [&calls](cudaStream_t stream) {
    return cudaLaunchHostFunc(
        stream, [](void* data) { ++*static_cast<int*>(data); }, &calls);
  };
  const Floats second(Layer::kM * Layer::kK + 1, 2.0F);
  {
    ai::Executable executable = captured(layer.program_through_temporary(ai::ActKind::None, count));
    run(executable);
    rebind(executable, {{layer.a, second.get()}});
    run(executable);
    CHECK(layer.holds(4 * Layer::kK));
    REQUIRE(executable.launch().ok());
    CHECK(executable.rebind({{second.get(), second.get() + 1}}).code() == ai::StatusCode::Invalid);
    REQUIRE(executable.wait().ok());
    rebind(executable, {{second.get(), second.get() + 1}});
    run(executable);
    CHECK(layer.holds(4 * Layer::kK));
  }
  CHECK(calls == 4);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
