// What an executable promises about memory, threads and repetition.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "layer.hpp"
#include "lifecycle_kernels.hpp"

namespace {

using gpu::captured;
using gpu::device_buffer;
using gpu::download;
using gpu::Layer;
using gpu::OwnStream;

constexpr long long kMillisecond = 1'000'000;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
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
