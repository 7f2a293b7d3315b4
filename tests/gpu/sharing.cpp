// What executables share, and what they keep for themselves: memory and threads.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "device_memory.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"
#include "rank_one.hpp"

namespace {

using gpu::captured;
using gpu::Churn;
using gpu::device_buffer;
using gpu::download;
using gpu::Layer;
using gpu::OwnStream;
using gpu::RankOne;

// Deep and small: cuBLASLt splits the sum and keeps the parts in scratch.
constexpr int kSide = 64;
constexpr int kDeep = 65536;
constexpr std::size_t kChurnBytes = std::size_t{64} << 20;

TEST_CASE("B1: an executable gives the right numbers after another one on its stream has gone") {
  const RankOne first(kSide, kSide, kDeep);
  const RankOne second(kSide, kSide, kDeep);
  const OwnStream stream;
  auto p = std::make_unique<ai::Executable>(captured(first.program()));
  ai::Executable q = captured(second.program());
  MESSAGE("workspace of each: ", q.workspace_bytes(), " bytes");
  REQUIRE(p->launch(stream.get()).ok());
  REQUIRE(q.launch(stream.get()).ok());
  p.reset();
  const Churn churn(8, kChurnBytes);
  second.poison();
  for (int i = 0; i < 100; ++i) REQUIRE(q.launch(stream.get()).ok());
  const ai::Status status = q.wait();
  REQUIRE_MESSAGE(status.ok(), status.to_string());
  CHECK(first.wrong() == "");
  CHECK(second.wrong() == "");
  CHECK(churn.intact());
}

TEST_CASE("B8: two threads launch one executable under their lock, each on two streams") {
  const Layer layer;
  // Not idempotent: a launch that is lost or overlaps another one leaves another number.
  float* const counter = device_buffer({0.0F});
  ai::Program program = layer.program();
  float* const one = device_buffer({1.0F});
  const ai::GemmForward add{.A = ai::make_tensor_2d(one, {1, 1}),
                            .B = ai::make_tensor_2d(one, {1, 1}),
                            .C = ai::make_tensor_2d(counter, {1, 1}),
                            .Y = ai::make_tensor_2d(counter, {1, 1}),
                            .attrs = {.beta = 1.0F}};
  const auto plan = ai::plan_forward(add);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  REQUIRE(program.add(*plan).ok());
  ai::Executable executable = captured(program);
  layer.clear();
  std::mutex mutex;
  constexpr int kLaunches = 1000;
  const OwnStream streams[4];
  const auto hammer = [&](int first, int& failures) {
    for (int i = 0; i < kLaunches; ++i) {
      const std::scoped_lock lock(mutex);
      if (!executable.launch(streams[first + i % 2].get()).ok()) ++failures;
    }
    const std::scoped_lock lock(mutex);
    if (!executable.wait().ok()) ++failures;
  };
  int failures[2] = {};
  std::thread a([&] { hammer(0, failures[0]); });
  std::thread b([&] { hammer(2, failures[1]); });
  a.join();
  b.join();
  for (const OwnStream& stream : streams) {
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  }
  CHECK(failures[0] == 0);
  CHECK(failures[1] == 0);
  CHECK(layer.holds(Layer::kK));
  CHECK(download(counter, 1)[0] == 2.0F * kLaunches);
  for (float* data : {counter, one}) (void)cudaFree(data);
}

TEST_CASE("B8: two executables on two streams give the bits that each gives alone") {
  const auto values = [](unsigned seed) {
    std::vector<float> out(std::size_t{kSide} * kDeep);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>((i * 2654435761U + seed * 40503U) % 10007U) / 10007.0F - 0.5F;
    }
    return out;
  };
  struct Side {
    float* a;
    float* b;
    float* y;
  };
  std::vector<Side> sides;
  std::vector<ai::Executable> executables;
  for (unsigned i = 0; i < 2; ++i) {
    const Side side{device_buffer(values(3 * i)), device_buffer(values(3 * i + 1)),
                    device_buffer(std::vector<float>(std::size_t{kSide} * kSide))};
    sides.push_back(side);
    const auto plan = ai::plan_forward({.A = ai::make_tensor_2d(side.a, {kSide, kDeep}),
                                        .B = ai::make_tensor_2d(side.b, {kDeep, kSide}),
                                        .Y = ai::make_tensor_2d(side.y, {kSide, kSide})});
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    executables.push_back(captured(program));
  }
  const auto result = [&](std::size_t i) {
    return download(sides[i].y, std::size_t{kSide} * kSide);
  };
  std::vector<std::vector<float>> alone;
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(executables[i].launch().ok());
    REQUIRE(executables[i].wait().ok());
    alone.push_back(result(i));
  }
  REQUIRE(alone[0] != alone[1]);
  const OwnStream streams[2];
  for (int round = 0; round < 20; ++round) {
    for (const Side& side : sides) {
      REQUIRE(cudaMemset(side.y, 0xFF, std::size_t{kSide} * kSide * sizeof(float)) == cudaSuccess);
    }
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    for (int i = 0; i < 10; ++i) {
      for (std::size_t k = 0; k < 2; ++k) REQUIRE(executables[k].launch(streams[k].get()).ok());
    }
    for (std::size_t k = 0; k < 2; ++k) {
      REQUIRE(executables[k].wait().ok());
      REQUIRE(result(k) == alone[k]);
    }
  }
  for (const Side& side : sides) {
    for (float* data : {side.a, side.b, side.y}) (void)cudaFree(data);
  }
}

// 0.6 s of work on an H200. The result goes through a temporary, which is what dies too early.
TEST_CASE("B9: 200 replays of 4096^3 come to their end after the executable has gone") {
  constexpr int kSize = 4096;
  constexpr std::size_t kBytes = std::size_t{kSize} * kSize * sizeof(float);
  const RankOne layer(kSize, kSize, kSize);
  const OwnStream stream;
  const OwnStream other;
  ai::GemmForward call = layer.call();
  ai::Program program;
  const auto hidden = program.temporary(call.Y.desc);
  REQUIRE_MESSAGE(hidden.ok(), hidden.status().to_string());
  ai::UserStep copy;
  copy.name = "copy";
  copy.reads = {*hidden};
  copy.writes = {call.Y};
  copy.cuda = [](const ai::StepContext& context) {
    return gpu::to_status(cudaMemcpyAsync(context.writes[0].data, context.reads[0].data, kBytes,
                                          cudaMemcpyDeviceToDevice, context.stream));
  };
  call.Y = *hidden;
  const auto plan = ai::plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  REQUIRE(program.add(*plan).ok());
  REQUIRE(program.add(std::move(copy)).ok());
  layer.poison();
  std::size_t bytes = 0;
  double destroyed_ms = 0;
  {
    auto executable = std::make_unique<ai::Executable>(captured(program));
    bytes = executable->workspace_bytes();
    REQUIRE(bytes >= kBytes);
    for (int i = 0; i < 200; ++i) REQUIRE(executable->launch(stream.get()).ok());
    const auto start = std::chrono::steady_clock::now();
    executable.reset();
    destroyed_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  CHECK(cudaStreamQuery(stream.get()) == cudaErrorNotReady);  // else nothing was in flight
  (void)cudaGetLastError();
  CHECK(destroyed_ms < 100.0);
  const Churn churn(8, kChurnBytes);
  std::vector<ai::Executable> poisons;
  for (int i = 0; i < 4; ++i) {
    poisons.push_back(captured(gpu::poisoning_program(bytes)));
    REQUIRE(poisons.back().launch(other.get()).ok());
  }
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  for (ai::Executable& poison : poisons) REQUIRE(poison.wait().ok());
  CHECK(layer.wrong() == "");
  CHECK(churn.intact());
}

}  // namespace
