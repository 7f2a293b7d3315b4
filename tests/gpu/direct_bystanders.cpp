// The direct path beside other threads' work and after other people's errors.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <thread>

#include "bystander.hpp"
#include "gradient_layer.hpp"
#include "layer.hpp"
#include "placed_case.hpp"

namespace {

using gpu::Bystander;
using gpu::GradientLayer;
using gpu::Layer;
using gpu::OwnStream;
using gpu::PlacedForward;

/// Work on the legacy stream, with memory that comes and goes.
bool works_on_the_legacy_stream() {
  void* data = nullptr;
  const bool good = cudaMalloc(&data, 4096) == cudaSuccess &&
                    cudaMemsetAsync(data, 0, 4096, nullptr) == cudaSuccess &&
                    cudaStreamSynchronize(nullptr) == cudaSuccess;
  return cudaFree(data) == cudaSuccess && good;
}

TEST_CASE(
    "A3: first direct calls and another thread's work on the legacy stream leave each other be") {
  constexpr int kMost = 100;
  const OwnStream stream;
  Bystander bystander(works_on_the_legacy_stream);
  for (int m = 1; m <= kMost; ++m) {
    const GradientLayer backward(m, 24, 16);
    const ai::Status status = ai::gemm::backward(backward.call(), stream.get());
    CHECK_MESSAGE(status.ok(), status.to_string());
    support::Case c = gpu::layer_case();
    c.m = m;
    c.n = c.k = 8;
    PlacedForward forward(c);
    REQUIRE(forward.upload() == cudaSuccess);
    const ai::Status second = ai::gemm::forward(forward.call(), stream.get());
    CHECK_MESSAGE(second.ok(), second.to_string());
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(backward.wrong() == "");
    CHECK(forward.wrong() == "");
  }
  bystander.stop();
  CHECK(bystander.errors() == 0);
  CHECK(bystander.turns() > 0);
  ai::gemm::clear_plan_cache();
}

// The other thread's call comes while this one is between two calls: see A4 in captures.cpp.
TEST_CASE(
    "A4: a direct call on a capture that another thread has broken fails, and the next works") {
  const Layer layer;
  const OwnStream stream;
  for (const bool is_known : {false, true}) {
    CAPTURE(is_known);
    if (!is_known) ai::gemm::clear_plan_cache();
    REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    std::thread([] {
      CHECK(cudaDeviceSynchronize() != cudaSuccess);
      (void)cudaGetLastError();
    }).join();
    const ai::Status status = ai::gemm::forward(layer.call(), stream.get());
    CHECK_MESSAGE(status.code() == ai::StatusCode::CaptureInvalidated, status.to_string());
    CHECK(cudaGetLastError() == cudaSuccess);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    layer.clear();
    CHECK(ai::gemm::forward(layer.call(), stream.get()).ok());
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(layer.holds(Layer::kK));
  }
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE(
    "D3: an error that the caller has ignored neither fails a direct call nor is taken away") {
  const Layer layer;
  const GradientLayer backward(16, 24, 40);
  layer.clear();
  const OwnStream stream;
  ai::gemm::clear_plan_cache();
  REQUIRE(cudaSetDevice(999) == cudaErrorInvalidDevice);
  for (int i = 0; i < 2; ++i) {
    const ai::Status first = ai::gemm::forward(layer.call(ai::ActKind::GELU), stream.get());
    CHECK_MESSAGE(first.ok(), first.to_string());
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
    const ai::Status second = ai::gemm::backward(backward.call(), stream.get());
    CHECK_MESSAGE(second.ok(), second.to_string());
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  }
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(layer.holds(Layer::kK));
  CHECK(backward.wrong() == "");
}

}  // namespace
