// What the direct path promises about memory, threads and repetition.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bystander.hpp"
#include "device_memory.hpp"
#include "gradient_layer.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"
#include "rank_one.hpp"

namespace {

using gpu::Churn;
using gpu::GradientLayer;
using gpu::Layer;
using gpu::OwnStream;
using gpu::RankOne;

constexpr long long kMillisecond = 1'000'000;

TEST_CASE(
    "B1: direct calls over a deep product give the right numbers after the cache was cleared") {
  const RankOne first(64, 64, 65536);
  const RankOne second(64, 64, 65536);
  const OwnStream stream;
  second.poison();
  REQUIRE(ai::gemm::forward(first.call(), stream.get()).ok());
  ai::gemm::clear_plan_cache();
  const Churn churn(8, std::size_t{64} << 20);
  for (int i = 0; i < 100; ++i) {
    if (i % 10 == 9) ai::gemm::clear_plan_cache();
    REQUIRE(ai::gemm::forward(second.call(), stream.get()).ok());
  }
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(first.wrong() == "");
  CHECK(second.wrong() == "");
  CHECK(churn.intact());
  ai::gemm::clear_plan_cache();
}

/// Blocks that clearing does not give back: those of streams that were destroyed after many calls.
std::size_t lingering_blocks() {
  ai::gemm::clear_plan_cache();
  return ai::gemm::plan_cache().scratch_blocks;
}

// The calls wait behind a spinning kernel while their scratch is given back and asked for by
// others.
TEST_CASE(
    "B1 B9: the cache may be cleared, and the stream destroyed, while direct calls are in flight") {
  const std::size_t lingering = lingering_blocks();
  const std::size_t lingering_bytes = ai::gemm::plan_cache().scratch_bytes;
  const GradientLayer layer(512, 1024, 16);
  const OwnStream other;
  {
    const OwnStream warm;
    REQUIRE(ai::gemm::backward(layer.call(), warm.get()).ok());
    ai::Executable poison = gpu::captured(gpu::poisoning_program(layer.scratch_bytes()));
    REQUIRE(poison.launch(other.get()).ok());
    REQUIRE(poison.wait().ok());
    REQUIRE(cudaStreamSynchronize(warm.get()) == cudaSuccess);
  }
  cudaEvent_t done = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming) == cudaSuccess);
  layer.clear();
  const auto start = std::chrono::steady_clock::now();
  {
    const OwnStream gone;
    REQUIRE(gpu::enqueue_spin(200 * kMillisecond, gone.get()) == cudaSuccess);
    REQUIRE(ai::gemm::backward(layer.call(), gone.get()).ok());
    REQUIRE(cudaEventRecord(done, gone.get()) == cudaSuccess);
  }
  ai::gemm::clear_plan_cache();
  CHECK(ai::gemm::plan_cache().scratch_blocks == lingering);
  CHECK(ai::gemm::plan_cache().scratch_bytes == lingering_bytes);
  CHECK(ai::gemm::plan_cache().plans == 0);
  std::vector<ai::Executable> poisons;
  for (int i = 0; i < 4; ++i) {
    poisons.push_back(gpu::captured(gpu::poisoning_program(layer.scratch_bytes())));
    REQUIRE(poisons.back().launch(other.get()).ok());
  }
  for (ai::Executable& poison : poisons) REQUIRE(poison.wait().ok());
  const double waited_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  WARN(waited_ms < 200.0);  // else nothing was in flight any more
  REQUIRE(cudaEventSynchronize(done) == cudaSuccess);
  CHECK(layer.wrong() == "");
  (void)cudaEventDestroy(done);
}

TEST_CASE("B2: 2000 direct calls with the cache cleared after each hundred keep no device memory") {
  const std::size_t lingering = lingering_blocks();
  const GradientLayer layer(32, 128, 256);
  const OwnStream stream;
  long long before = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 2000; ++i) {
    if (i == 50) before = gpu::settled_free_bytes();
    if (i % 100 == 0) ai::gemm::clear_plan_cache();
    const ai::Status status = ai::gemm::backward(layer.call(), stream.get());
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    REQUIRE(ai::gemm::plan_cache().plans == 1);
    REQUIRE(ai::gemm::plan_cache().scratch_blocks == lingering + 1);
  }
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  MESSAGE(
      "2000 direct calls and 20 plans take ",
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(),
      " ms");
  CHECK(layer.wrong() == "");
  const long long lost = before - gpu::settled_free_bytes();
  CAPTURE(lost);
  CHECK(lost < (2LL << 20));
}

TEST_CASE("B2: 2000 streams that come and go keep no device memory, and few blocks of scratch") {
  const std::size_t lingering = lingering_blocks();
  const GradientLayer layer(32, 128, 256);
  long long before = 0;
  std::size_t most_blocks = 0;
  for (int i = 0; i < 2000; ++i) {
    if (i == 50) before = gpu::settled_free_bytes();
    const OwnStream brief;
    // Forgets that this call came before: else it would become a graph with scratch of its own.
    ai::gemm::set_plan_cache_limit(ai::gemm::plan_cache().limit);
    REQUIRE(ai::gemm::backward(layer.call(), brief.get()).ok());
    most_blocks = std::max(most_blocks, ai::gemm::plan_cache().scratch_blocks);
    // Every other one is destroyed in flight.
    if (i % 2 == 0) REQUIRE(cudaStreamSynchronize(brief.get()) == cudaSuccess);
  }
  CHECK(most_blocks <= 64);  // StreamScratch::kMostBlocks
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(layer.wrong() == "");
  const long long lost = before - gpu::settled_free_bytes();
  CAPTURE(lost);
  CHECK(lost < (2LL << 20));
  CHECK(ai::gemm::plan_cache().scratch_blocks == lingering);
}

TEST_CASE("B2: of more problems than the cache may hold the longest unused are forgotten") {
  const OwnStream stream;
  const std::size_t limit = ai::gemm::plan_cache().limit;
  ai::gemm::set_plan_cache_limit(8);
  const std::uint64_t planned = ai::gemm::plan_cache().planned;
  for (int round = 0; round < 2; ++round) {
    for (int m = 1; m <= 20; ++m) {
      const GradientLayer layer(m, 8, 4);
      REQUIRE(ai::gemm::backward(layer.call(), stream.get()).ok());
      REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
      CHECK(layer.wrong() == "");
      CHECK(ai::gemm::plan_cache().plans <= 8);
    }
  }
  CHECK(ai::gemm::plan_cache().planned == planned + 40);
  ai::gemm::set_plan_cache_limit(limit);
  ai::gemm::clear_plan_cache();
}

TEST_CASE("B5: numbers of a direct call are taken when it is made") {
  const Layer layer;
  const OwnStream stream;
  auto call = std::make_unique<ai::GemmForward>(layer.call(ai::ActKind::LeakyReLU));
  call->attrs.alpha = -0.5F;
  call->attrs.leaky_slope = 0.25F;
  REQUIRE(gpu::enqueue_spin(20 * kMillisecond, stream.get()) == cudaSuccess);
  REQUIRE(ai::gemm::forward(*call, stream.get()).ok());
  call->attrs = {.leaky_slope = 100.0F, .alpha = 100.0F};
  call.reset();
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(layer.holds(-0.125F * Layer::kK));
}

TEST_CASE("B6: direct calls of one shape whose pointers are aligned now more, now less") {
  constexpr int kSide = 128;
  const OwnStream stream;
  const auto room = [](float value) {
    return gpu::device_buffer(std::vector<float>(kSide * kSide + 64, value));
  };
  float* const a = room(0.5F);
  float* const b = room(2.0F);
  float* const bias = room(3.0F);
  float* const y = room(0.0F);
  for (int round = 0; round < 3; ++round) {
    for (const int offset : {0, 1, 2, 3, 4, 0, 3}) {
      CAPTURE(offset);
      REQUIRE(cudaMemset(y, 0xFF, (kSide * kSide + 64) * sizeof(float)) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
      const ai::Status status =
          ai::gemm::forward({.A = ai::make_tensor_2d(a + offset, {kSide, kSide}),
                             .B = ai::make_tensor_2d(b + offset, {kSide, kSide}),
                             .bias = ai::make_tensor_2d(bias + offset, {1, kSide}),
                             .Y = ai::make_tensor_2d(y + offset, {kSide, kSide}),
                             .attrs = {.act = ai::ActKind::ReLU}},
                            stream.get());
      REQUIRE_MESSAGE(status.ok(), status.to_string());
      REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
      const std::vector<float> given = gpu::download(y, kSide * kSide + 64);
      int wrong = 0;
      for (int i = 0; i < kSide * kSide + 64; ++i) {
        const float value = given[static_cast<std::size_t>(i)];
        const bool inside = i >= offset && i < offset + kSide * kSide;
        if (inside ? value != kSide + 3.0F : value == value) ++wrong;
      }
      CHECK(wrong == 0);
      CHECK(cudaGetLastError() == cudaSuccess);
    }
  }
  for (float* data : {a, b, bias, y}) (void)cudaFree(data);
}

constexpr int kThreads = 4;
constexpr int kCalls = 200;

/// One thread for each layer, each of which adds `kCalls` gradients to what is there: a single
/// wrong one is seen in the end. Waits for the streams.
void call_from_threads(const std::vector<std::unique_ptr<GradientLayer>>& layers,
                       const std::vector<cudaStream_t>& streams) {
  for (const auto& layer : layers) layer->clear();
  std::vector<ai::Status> statuses(layers.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    threads.emplace_back([&, i] {
      const ai::GemmBackward call = layers[i]->call();
      for (int n = 0; n < kCalls && statuses[i].ok(); ++n) {
        statuses[i] = ai::gemm::backward(call, streams[i % streams.size()]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (cudaStream_t stream : streams) REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    CAPTURE(i);
    CHECK_MESSAGE(statuses[i].ok(), statuses[i].to_string());
    CHECK(layers[i]->wrong(kCalls) == "");
  }
}

TEST_CASE(
    "B8: direct calls from four threads, on one stream and on four, while the cache is cleared") {
  const OwnStream own[kThreads];
  std::vector<cudaStream_t> four;
  for (const OwnStream& stream : own) four.push_back(stream.get());
  const std::vector<cudaStream_t> one = {four.front()};
  std::vector<std::unique_ptr<GradientLayer>> same;
  std::vector<std::unique_ptr<GradientLayer>> different;
  for (int i = 0; i < kThreads; ++i) {
    const auto gy = static_cast<float>(i + 1);
    same.push_back(std::make_unique<GradientLayer>(33, 64, 17, gy, ai::GradMode::Accumulate));
    different.push_back(std::make_unique<GradientLayer>(20 + 9 * i, 40 + 24 * i, 10 + i, gy,
                                                        ai::GradMode::Accumulate));
  }
  for (const bool is_cleared : {false, true}) {
    CAPTURE(is_cleared);
    std::unique_ptr<gpu::Bystander> clearing;
    if (is_cleared) {
      clearing = std::make_unique<gpu::Bystander>([] {
        ai::gemm::clear_plan_cache();
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        return true;
      });
    }
    call_from_threads(same, one);
    call_from_threads(same, four);
    call_from_threads(different, one);
    call_from_threads(different, four);
    if (clearing) {
      clearing->stop();
      CHECK(clearing->turns() > 1);
    }
  }
  ai::gemm::clear_plan_cache();
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
