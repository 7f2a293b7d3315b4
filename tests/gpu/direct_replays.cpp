// Direct calls that come again and again: launched as graphs, they are what they were before.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device_memory.hpp"
#include "gradient_layer.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"
#include "placed_case.hpp"

namespace {

using gpu::GradientLayer;
using gpu::Layer;
using gpu::OwnStream;

constexpr int kGraphFrom = 8;  // DirectPath::kGraphFrom

std::size_t elements_of(const ai::Tensor& tensor) {
  const ai::Extents& shape = tensor.desc.shape;
  const auto ld = tensor.desc.stride[0];
  return static_cast<std::size_t>(shape.rank() == 1 ? shape[0] : (shape[0] - 1) * ld + shape[1]);
}

std::vector<ai::Tensor> outputs_of(const ai::GemmForward& call) {
  std::vector<ai::Tensor> outputs = {call.Y};
  if (call.Z) outputs.push_back(*call.Z);
  return outputs;
}
std::vector<ai::Tensor> outputs_of(const ai::GemmBackward& call) {
  std::vector<ai::Tensor> outputs;
  for (const auto& gradient : {call.gA, call.gB, call.gC, call.gBias}) {
    if (gradient) outputs.push_back(gradient->tensor);
  }
  return outputs;
}

void poison(const std::vector<ai::Tensor>& tensors) {
  for (const ai::Tensor& tensor : tensors) {
    REQUIRE(cudaMemset(tensor.data, 0xFF, elements_of(tensor) * sizeof(float)) == cudaSuccess);
  }
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

/// Every bit of what `tensors` hold.
std::vector<std::uint32_t> bits_of(const std::vector<ai::Tensor>& tensors) {
  std::vector<std::uint32_t> bits;
  for (const ai::Tensor& tensor : tensors) {
    const std::vector<float> values =
        gpu::download(static_cast<const float*>(tensor.data), elements_of(tensor));
    const std::size_t before = bits.size();
    bits.resize(before + values.size());
    std::memcpy(&bits[before], values.data(), values.size() * sizeof(float));
  }
  return bits;
}

/// 50 calls, each on another stream than the one before and over another A, against replays of a
/// capture over the same memory.
template <typename Data>
void check_repeats(const support::Case& spec) {
  CAPTURE(support::to_string(spec));
  ai::gemm::clear_plan_cache();
  const std::size_t graphs = ai::gemm::plan_cache().graphs;
  gpu::Placed<Data> placed(spec);
  REQUIRE(placed.upload() == cudaSuccess);
  const auto call = placed.call();
  const auto outputs = outputs_of(call);
  const OwnStream first;
  const OwnStream second;
  const cudaStream_t streams[] = {first.get(), second.get(), nullptr, cudaStreamLegacy,
                                  cudaStreamPerThread};
  const ai::Result<ai::Program> program = gpu::program_of(call);
  REQUIRE_MESSAGE(program.ok(), program.status().to_string());
  ai::Executable reference = gpu::captured(*program);
  REQUIRE(reference.workspace_bytes() <= std::size_t{1} << 20);  // else there is no graph
  const auto scale_a = [&](int i) {
    REQUIRE(gpu::enqueue_scale(static_cast<float*>(call.A.data),
                               static_cast<int>(elements_of(call.A)), i % 2 == 0 ? 2.0F : 0.5F,
                               nullptr) == cudaSuccess);
    poison(outputs);
  };
  std::array<std::vector<std::uint32_t>, 2> expected;
  for (int i = 0; i < 2; ++i) {
    scale_a(i);
    REQUIRE(reference.launch(first.get()).ok());
    REQUIRE(reference.wait().ok());
    expected[static_cast<std::size_t>(i)] = bits_of(outputs);
  }
  REQUIRE(expected[0] != expected[1]);
  int different = 0;
  for (int i = 0; i < 50; ++i) {
    scale_a(i);
    const cudaStream_t stream = streams[i % 5];
    const ai::Status status = gpu::direct(call, stream);
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    different += bits_of(outputs) != expected[static_cast<std::size_t>(i % 2)] ? 1 : 0;
    CHECK(ai::gemm::plan_cache().graphs == graphs + (i + 1 >= kGraphFrom ? 1 : 0));
  }
  CHECK(different == 0);
  ai::gemm::clear_plan_cache();
  CHECK(ai::gemm::plan_cache().graphs == graphs);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("50 same calls are bitwise what a captured replay gives, on streams of every kind") {
  support::Case fused{16, 64, 64, ai::BiasKind::PerN, ai::ActKind::ReLU};
  check_repeats<support::ForwardData>(fused);
  check_repeats<support::ForwardData>(gpu::layer_case());   // two steps
  check_repeats<support::BackwardData>(gpu::layer_case());  // and scratch
  support::Case sums{64, 96, 33, ai::BiasKind::PerM, ai::ActKind::Tanh};
  sums.with_z = true;
  check_repeats<support::BackwardData>(sums);
}

TEST_CASE("a call whose scratch is large stays without a graph, and right") {
  const std::size_t graphs = ai::gemm::plan_cache().graphs;
  const GradientLayer layer(1024, 512, 8);
  const OwnStream stream;
  for (int i = 0; i < 3 * kGraphFrom; ++i) {
    layer.clear();
    REQUIRE(ai::gemm::backward(layer.call(), stream.get()).ok());
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(layer.wrong() == "");
  }
  CHECK(ai::gemm::plan_cache().graphs == graphs);
  ai::gemm::clear_plan_cache();
}

TEST_CASE(
    "B8: four threads make and launch graphs at once, of their own calls and of one and the same") {
  constexpr int kThreads = 4;
  constexpr int kCalls = 300;
  const std::size_t graphs = ai::gemm::plan_cache().graphs;
  std::vector<std::unique_ptr<GradientLayer>> layers;
  for (int i = 0; i < kThreads; ++i) {
    layers.push_back(std::make_unique<GradientLayer>(32 + i, 64, 48, static_cast<float>(i + 1),
                                                     ai::GradMode::Accumulate));
    layers.back()->clear();
  }
  const Layer shared;  // written by all, with the same values
  shared.clear();
  std::array<ai::Status, kThreads> statuses;
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  std::array<OwnStream, kThreads> streams;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int n = 0; n < kCalls && statuses[i].ok(); ++n) {
        statuses[i] = ai::gemm::backward(layers[i]->call(), streams[i].get());
        if (statuses[i].ok()) statuses[i] = ai::gemm::forward(shared.call(), streams[i].get());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kThreads; ++i) {
    CHECK_MESSAGE(statuses[i].ok(), statuses[i].to_string());
    REQUIRE(cudaStreamSynchronize(streams[i].get()) == cudaSuccess);
    CHECK(layers[i]->wrong(kCalls) == "");
  }
  CHECK(shared.holds(Layer::kK));
  CHECK(ai::gemm::plan_cache().graphs == graphs);  // theirs went with them
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("B2: 500 graphs of direct calls that come and go keep no device memory") {
  const GradientLayer layer(32, 128, 256);
  const OwnStream stream;
  long long before = 0;
  for (int i = 0; i < 500; ++i) {
    if (i == 50) before = gpu::settled_free_bytes();
    for (int n = 0; n < kGraphFrom + 2; ++n) {
      REQUIRE(ai::gemm::backward(layer.call(), stream.get()).ok());
    }
    CHECK(ai::gemm::plan_cache().graphs >= 1);
    // Forgets the graph, in flight, and keeps the plan.
    ai::gemm::set_plan_cache_limit(ai::gemm::plan_cache().limit);
  }
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(layer.wrong() == "");
  const long long lost = before - gpu::settled_free_bytes();
  CAPTURE(lost);
  CHECK(lost < (2LL << 20));
}

}  // namespace
