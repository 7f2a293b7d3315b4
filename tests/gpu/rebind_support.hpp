#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "layer.hpp"

/// What the tests of rebinding share.
namespace gpu {

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
inline std::vector<float> whole_numbers(std::size_t count, unsigned seed, int most = 7) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(state >> 16) % (2 * most + 1) - most);
  }
  return values;
}

inline void upload(float* to, const std::vector<float>& values) {
  REQUIRE(cudaMemcpy(to, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

inline void run(ai::Executable& executable) {
  const ai::Status launched = executable.launch();
  REQUIRE_MESSAGE(launched.ok(), launched.to_string());
  const ai::Status waited = executable.wait();
  REQUIRE_MESSAGE(waited.ok(), waited.to_string());
}

inline void rebind(ai::Executable& executable, std::initializer_list<ai::Rebinding> moves) {
  const ai::Status status = executable.rebind(moves);
  REQUIRE_MESSAGE(status.ok(), status.to_string());
}

inline double microseconds(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
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

}  // namespace gpu
