// Rebinding and cloning on a GPU: results over the new pointers, and what they cost. Takes seconds.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "layer.hpp"
#include "lifecycle_kernels.hpp"

namespace {

using gpu::captured;
using gpu::download;
using gpu::Layer;
using gpu::OwnStream;

constexpr long long kMillisecond = 1'000'000;

/// Device memory that is freed at the end of a scope.
class Floats {
 public:
  explicit Floats(const std::vector<float>& values) : data_(gpu::device_buffer(values)) {}
  Floats(std::size_t count, float value) : Floats(std::vector<float>(count, value)) {}
  Floats(Floats&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Floats& operator=(Floats&&) = delete;
  ~Floats() { (void)cudaFree(data_); }
  [[nodiscard]] float* get() const { return data_; }

 private:
  float* data_;
};

/// Whole numbers from -`most` to `most`: products of few of them are exact in f32.
std::vector<float> whole_numbers(std::size_t count, unsigned seed, int most = 7) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(state >> 16) % (2 * most + 1) - most);
  }
  return values;
}

void upload(float* to, const std::vector<float>& values) {
  REQUIRE(cudaMemcpy(to, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

void run(ai::Executable& executable) {
  const ai::Status launched = executable.launch();
  REQUIRE_MESSAGE(launched.ok(), launched.to_string());
  const ai::Status waited = executable.wait();
  REQUIRE_MESSAGE(waited.ok(), waited.to_string());
}

void rebind(ai::Executable& executable, std::initializer_list<ai::Rebinding> moves) {
  const ai::Status status = executable.rebind(moves);
  REQUIRE_MESSAGE(status.ok(), status.to_string());
}

TEST_CASE("B4: a rebind moves the input; without one the captured buffer's content counts") {
  const Layer layer;
  ai::Executable executable = captured(layer.program());
  run(executable);
  CHECK(layer.holds(Layer::kK));
  const std::size_t count = Layer::kM * Layer::kK;
  upload(layer.a, std::vector<float>(count, 1.0F));
  run(executable);
  CHECK(layer.holds(2 * Layer::kK));

  const Floats second(count, 2.0F);
  rebind(executable, {{layer.a, second.get()}});
  upload(layer.a, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
  run(executable);
  CHECK(layer.holds(4 * Layer::kK));
  CHECK(executable.operands().front().tensor.data == second.get());
  CHECK(cudaGetLastError() == cudaSuccess);
}

/// Z = A B + C + bias, Y = ReLU(Z) over whole numbers, each operand with room to be moved.
struct WholeLayer {
  static constexpr int kM = 32, kN = 64, kK = 48;
  static constexpr std::size_t kRoom = 8;
  std::vector<float> a = whole_numbers(kM * kK, 1);
  std::vector<float> b = whole_numbers(kK * kN, 2);
  std::vector<float> c = whole_numbers(kM * kN, 3, 1000);
  std::vector<float> bias = whole_numbers(kN, 4, 1000);

  [[nodiscard]] std::vector<float> expected_z() const {
    std::vector<float> z(kM * kN);
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        double sum = c[static_cast<std::size_t>(i * kN + j)] + bias[static_cast<std::size_t>(j)];
        for (int l = 0; l < kK; ++l) {
          sum += static_cast<double>(a[static_cast<std::size_t>(i * kK + l)]) *
                 b[static_cast<std::size_t>(l * kN + j)];
        }
        z[static_cast<std::size_t>(i * kN + j)] = static_cast<float>(sum);
      }
    }
    return z;
  }
};

/// The same numbers, `offset` floats into a buffer of their own.
struct Place {
  Place(const std::vector<float>& values, std::size_t offset)
      : memory(padded(values, offset)), data(memory.get() + offset) {}
  static std::vector<float> padded(const std::vector<float>& values, std::size_t offset) {
    std::vector<float> all(offset, -3.0F);
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  Floats memory;
  float* data;
};

TEST_CASE("B6: each operand may become 4-byte aligned: right results, and no error is left") {
  const WholeLayer layer;
  constexpr int kM = WholeLayer::kM, kN = WholeLayer::kN, kK = WholeLayer::kK;
  const std::vector<float> z = layer.expected_z();
  std::vector<float> y = z;
  for (float& value : y) value = std::max(value, 0.0F);
  const std::vector<float> spoiled(z.size(), std::numeric_limits<float>::quiet_NaN());
  const struct {
    const char* name;
    const std::vector<float>& values;
  } operands[] = {{"A", layer.a},       {"B", layer.b}, {"C", layer.c},
                  {"bias", layer.bias}, {"Y", spoiled}, {"Z", spoiled}};
  for (const bool with_z : {false, true}) {
    CAPTURE(with_z);
    std::vector<Place> places;
    for (const auto& operand : operands) places.emplace_back(operand.values, 0);
    ai::GemmForward call{.A = ai::make_tensor_2d(places[0].data, {kM, kK}),
                         .B = ai::make_tensor_2d(places[1].data, {kK, kN}),
                         .C = ai::make_tensor_2d(places[2].data, {kM, kN}),
                         .bias = ai::make_tensor_1d(places[3].data, kN),
                         .Y = ai::make_tensor_2d(places[4].data, {kM, kN}),
                         .attrs = {.act = ai::ActKind::ReLU, .beta = 1.0F}};
    if (with_z) call.Z = ai::make_tensor_2d(places[5].data, {kM, kN});
    const auto plan = ai::plan_forward(call);
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    for (std::size_t which = 0; which < (with_z ? 6U : 5U); ++which) {
      CAPTURE(operands[which].name);
      for (const std::size_t offset : {1U, 2U, 3U}) {
        CAPTURE(offset);
        ai::Executable executable = captured(program);
        run(executable);
        const Place odd(operands[which].values, offset);
        if (which < 4) {  // what is read no more must not matter
          upload(places[which].data, std::vector<float>(operands[which].values.size(),
                                                        std::numeric_limits<float>::quiet_NaN()));
        }
        upload(places[4].data, spoiled);
        rebind(executable, {{places[which].data, odd.data}});
        CHECK(cudaGetLastError() == cudaSuccess);
        run(executable);
        CHECK(cudaGetLastError() == cudaSuccess);
        CHECK(download(which == 4 ? odd.data : places[4].data, y.size()) == y);
        if (with_z) CHECK(download(which == 5 ? odd.data : places[5].data, z.size()) == z);
        // And back, in place: an operand may always be aligned better.
        upload(places[which].data, operands[which].values);
        rebind(executable, {{odd.data, places[which].data}});
        run(executable);
        CHECK(download(places[4].data, y.size()) == y);
      }
    }
  }
}

/// Layers of width 64 with a bias and Tanh at batch 16: two nodes each, one after the other.
struct Chain {
  static constexpr int kBatch = 16, kWidth = 64, kLayers = 5;
  Chain() {
    for (int l = 0; l < kLayers; ++l) {
      weights.emplace_back(whole_numbers(kWidth * kWidth, 10 + static_cast<unsigned>(l), 1));
      biases.emplace_back(whole_numbers(kWidth, 20 + static_cast<unsigned>(l), 1));
      values.emplace_back(kBatch * kWidth, 0.0F);
    }
  }
  [[nodiscard]] ai::Program program() const {
    ai::Program program;
    for (int l = 0; l < kLayers; ++l) {
      const auto i = static_cast<std::size_t>(l);
      const float* from = l == 0 ? x.get() : values[i - 1].get();
      const auto plan =
          ai::plan_forward({.A = ai::make_tensor_2d(from, {kBatch, kWidth}),
                            .B = ai::make_tensor_2d(weights[i].get(), {kWidth, kWidth}),
                            .bias = ai::make_tensor_1d(biases[i].get(), kWidth),
                            .Y = ai::make_tensor_2d(values[i].get(), {kBatch, kWidth}),
                            .attrs = {.act = ai::ActKind::Tanh}});
      REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
      REQUIRE(program.add(*plan).ok());
    }
    return program;
  }
  [[nodiscard]] float* y() const { return values.back().get(); }
  static constexpr std::size_t kCount = kBatch * kWidth;

  Floats x{whole_numbers(kBatch * kWidth, 30, 1)};
  std::vector<Floats> weights;
  std::vector<Floats> biases;
  std::vector<Floats> values;
};

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

TEST_CASE("two buffers change places in one call") {
  const Floats a(whole_numbers(24 * 24, 40));
  const Floats b(whole_numbers(24 * 24, 41));
  const Floats y(24 * 24, 0.0F);
  const auto tensor = [](const Floats& floats) {
    return ai::make_tensor_2d(floats.get(), {24, 24});
  };
  const auto product_of = [&](const Floats& left, const Floats& right) {
    const auto plan = ai::plan_forward({.A = tensor(left), .B = tensor(right), .Y = tensor(y)});
    REQUIRE(plan.ok());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    ai::Executable executable = captured(program);
    run(executable);
    return std::make_pair(std::move(executable), download(y.get(), 24 * 24));
  };
  const std::vector<float> swapped = product_of(b, a).second;
  auto [executable, straight] = product_of(a, b);
  CHECK(straight != swapped);
  for (int i = 0; i < 4; ++i) {
    rebind(executable, {{a.get(), b.get()}, {b.get(), a.get()}});
    run(executable);
    CHECK(download(y.get(), 24 * 24) == (i % 2 == 0 ? swapped : straight));
  }
}

double microseconds(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

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
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  return times[100];
}

TEST_CASE("what a rebind and a clone of a program of ten nodes cost") {
  const Chain chain;
  const Floats x(Chain::kCount, 1.0F);
  const Floats y(Chain::kCount, 0.0F);
  const Floats odd(Chain::kCount + 1, 1.0F);
  ai::Executable executable = captured(chain.program());
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
