// Rebinding and cloning a network of ten nodes on a GPU: to the bit, and what it costs.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rebind_support.hpp"
#include "support/median.hpp"

namespace {

using gpu::captured;
using gpu::Chain;
using gpu::download;
using gpu::Floats;
using gpu::microseconds;
using gpu::OwnStream;
using gpu::rebind;
using gpu::run;
using gpu::upload;
using gpu::whole_numbers;

TEST_CASE("a double buffer: inputs change places 1000 times between launches, to the bit") {
  const Chain chain;
  const Floats other(whole_numbers(Chain::kCount, 31, 1));
  ai::Executable executable = captured(chain.program());
  std::vector<std::vector<float>> expected;
  for (const float* x : {chain.x.get(), other.get()}) {
    if (x == other.get()) rebind(executable, {{chain.x.get(), other.get()}});
    run(executable);
    expected.push_back(download(chain.y(), Chain::kCount));
  }
  CHECK(expected[0] != expected[1]);
  rebind(executable, {{other.get(), chain.x.get()}});

  // Each replay's output is kept, so that launches overtaking rebinds would show.
  constexpr int kRounds = 1000;
  const Floats results(std::vector<float>(kRounds * Chain::kCount, -1.0F));
  const OwnStream stream;
  float* now = chain.x.get();
  float* next = other.get();
  for (int i = 0; i < kRounds; ++i) {
    REQUIRE(executable.launch(stream.get()).ok());
    REQUIRE(cudaMemcpyAsync(results.get() + static_cast<std::size_t>(i) * Chain::kCount, chain.y(),
                            Chain::kCount * sizeof(float), cudaMemcpyDeviceToDevice,
                            stream.get()) == cudaSuccess);
    rebind(executable, {{now, next}});
    std::swap(now, next);
  }
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  const std::vector<float> all = download(results.get(), kRounds * Chain::kCount);
  int wrong = 0;
  for (int i = 0; i < kRounds; ++i) {
    wrong += std::memcmp(all.data() + static_cast<std::size_t>(i) * Chain::kCount,
                         expected[static_cast<std::size_t>(i % 2)].data(),
                         Chain::kCount * sizeof(float)) != 0;
  }
  CHECK(wrong == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("clones on two streams from two threads give the bits of solo runs") {
  const Chain chain;
  const Floats other(whole_numbers(Chain::kCount, 50, 1));
  const auto through_temporary = [&] {
    // The last value alone leaves the library: the others are temporaries in the workspace.
    ai::Program program;
    ai::Tensor from = ai::make_tensor_2d(chain.x.get(), {Chain::kBatch, Chain::kWidth});
    for (std::size_t l = 0; l < Chain::kLayers; ++l) {
      ai::Tensor to = ai::make_tensor_2d(chain.y(), {Chain::kBatch, Chain::kWidth});
      if (l + 1 < Chain::kLayers) {
        const auto hidden = program.temporary(to.desc);
        REQUIRE(hidden.ok());
        to = *hidden;
      }
      const auto plan = ai::plan_forward(
          {.A = from,
           .B = ai::make_tensor_2d(chain.weights[l].get(), {Chain::kWidth, Chain::kWidth}),
           .bias = ai::make_tensor_1d(chain.biases[l].get(), Chain::kWidth),
           .Y = to,
           .attrs = {.act = ai::ActKind::Tanh}});
      REQUIRE(plan.ok());
      REQUIRE(program.add(*plan).ok());
      from = to;
    }
    return program;
  };
  const Floats other_y(Chain::kCount, 0.0F);
  ai::Executable executable = captured(through_temporary());
  ai::Result<ai::Executable> clone =
      executable.clone({{chain.x.get(), other.get()}, {chain.y(), other_y.get()}});
  REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
  CHECK(clone->explain() == executable.explain());
  run(executable);
  const std::vector<float> solo = download(chain.y(), Chain::kCount);
  run(*clone);
  const std::vector<float> other_solo = download(other_y.get(), Chain::kCount);
  CHECK(solo != other_solo);

  constexpr int kRounds = 2000;
  const auto hammer = [](ai::Executable& mine) {
    const OwnStream own;
    for (int i = 0; i < kRounds; ++i) (void)mine.launch(own.get());
    (void)mine.wait();
  };
  std::thread first([&] { hammer(executable); });
  std::thread second([&] { hammer(*clone); });
  first.join();
  second.join();
  CHECK(download(chain.y(), Chain::kCount) == solo);
  CHECK(download(other_y.get(), Chain::kCount) == other_solo);
}

TEST_CASE("all operands of a chain move, at once and one by one, to the bit") {
  const Chain chain;
  const Chain other;
  upload(other.x.get(), whole_numbers(Chain::kCount, 60, 1));
  std::vector<ai::Rebinding> there{{chain.x.get(), other.x.get()}};
  for (std::size_t l = 0; l < Chain::kLayers; ++l) {
    there.push_back({chain.weights[l].get(), other.weights[l].get()});
    there.push_back({chain.biases[l].get(), other.biases[l].get()});
    there.push_back({chain.values[l].get(), other.values[l].get()});
  }
  ai::Executable executable = captured(chain.program());
  run(executable);
  const std::vector<float> before = download(chain.y(), Chain::kCount);
  {
    ai::Result<ai::Executable> clone = executable.clone(there);
    REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
    run(*clone);
  }
  const std::vector<float> expected = download(other.y(), Chain::kCount);
  CHECK(before != expected);
  const std::vector<float> nothing(Chain::kCount, -7.0F);
  upload(chain.y(), nothing);
  upload(other.y(), nothing);

  const ai::Status all = executable.rebind(there);
  REQUIRE_MESSAGE(all.ok(), all.to_string());
  run(executable);
  CHECK(download(other.y(), Chain::kCount) == expected);
  CHECK(download(chain.y(), Chain::kCount) == nothing);
  for (const ai::Rebinding& move : there) {
    rebind(executable, {{move.to, const_cast<void*>(move.from)}});
    run(executable);
  }
  CHECK(download(chain.y(), Chain::kCount) == before);
  CHECK(cudaGetLastError() == cudaSuccess);
}

double median_of_200(const std::function<void(int)>& call) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) times.push_back(microseconds([&] { call(i); }));
  return support::median(std::move(times));
}

TEST_CASE("what a rebind and a clone of a program of ten nodes cost") {
  const Chain chain;
  const Floats x(Chain::kCount, 1.0F);
  const Floats y(Chain::kCount, 0.0F);
  const Floats odd(Chain::kCount + 1, 1.0F);
  ai::CaptureOptions one_by_one = gpu::kQuick;
  one_by_one.fuse_layers = false;
  ai::Result<ai::Executable> made = ai::capture(chain.program(), one_by_one);
  REQUIRE_MESSAGE(made.ok(), made.status().to_string());
  ai::Executable executable = std::move(*made);
  CHECK(executable.nodes().size() == 10);
  const OwnStream stream;
  for (int i = 0; i < 2000; ++i) REQUIRE(executable.launch(stream.get()).ok());  // warm
  REQUIRE(executable.wait().ok());
  bool all_ok = true;
  float* now_x = chain.x.get();
  float* next_x = x.get();
  float* now_y = chain.y();
  float* next_y = y.get();
  const double one = median_of_200([&](int) {
    all_ok = executable.rebind({{now_x, next_x}}).ok() && all_ok;
    std::swap(now_x, next_x);
  });
  const double two = median_of_200([&](int) {
    all_ok = executable.rebind({{now_x, next_x}, {now_y, next_y}}).ok() && all_ok;
    std::swap(now_x, next_x);
    std::swap(now_y, next_y);
  });
  const Chain other;
  std::vector<ai::Rebinding> all{{now_x, next_x}};
  for (std::size_t l = 0; l < Chain::kLayers; ++l) {
    all.push_back({chain.weights[l].get(), other.weights[l].get()});
  }
  const double whole = median_of_200([&](int) {
    all_ok = executable.rebind(all).ok() && all_ok;
    for (ai::Rebinding& move : all) move = {move.to, const_cast<void*>(move.from)};
  });
  const double cloned = median_of_200([&](int) { all_ok = executable.clone().ok() && all_ok; });
  const double anew = median_of_200([&](int i) {
    // Every other one has to be planned anew: from an odd address on, all are served.
    ai::Result<ai::Executable> fresh =
        executable.clone({{now_x, i % 2 == 0 ? odd.get() + 1 : now_x}});
    all_ok = fresh.ok() && all_ok;
  });
  CHECK(all_ok);
  MESSAGE("10 nodes, median of 200: rebind of the input ", one, " us, of input and output ", two,
          " us, of input and all weights ", whole, " us; clone with its destruction ", cloned,
          " us, half of them planned anew ", anew, " us");
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
