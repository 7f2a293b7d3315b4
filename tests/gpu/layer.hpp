#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <functional>
#include <utility>
#include <vector>

#include "ai/ai.hpp"

/// What the tests of captures and lifetimes work with: a stream, a layer with a known result, and
/// an executable of it.
namespace gpu {

/// A stream of the caller's.
class OwnStream {
 public:
  OwnStream() {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~OwnStream() { (void)cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

inline float* device_buffer(const std::vector<float>& values) {
  void* data = nullptr;
  REQUIRE(cudaMalloc(&data, values.size() * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMemcpy(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice) ==
          cudaSuccess);
  return static_cast<float*>(data);
}

inline std::vector<float> download(const float* data, std::size_t count) {
  std::vector<float> values(count);
  REQUIRE(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  return values;
}

/// Y = A B with A [kM,kK] of 0.5 and B [kK,kN] of 2, so that each element is kK.
struct Layer {
  static constexpr int kM = 24, kN = 40, kK = 56;
  float* a = device_buffer(std::vector<float>(kM * kK, 0.5F));
  float* b = device_buffer(std::vector<float>(kK * kN, 2.0F));
  float* y = device_buffer(std::vector<float>(kM * kN, -1.0F));

  Layer() = default;
  ~Layer() {
    for (float* data : {a, b, y}) (void)cudaFree(data);
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  [[nodiscard]] ai::Tensor out() const { return ai::make_tensor_2d(y, {kM, kN}); }
  [[nodiscard]] ai::Program program(ai::ActKind act = ai::ActKind::None) const {
    const auto plan = ai::plan_forward({.A = ai::make_tensor_2d(a, {kM, kK}),
                                        .B = ai::make_tensor_2d(b, {kK, kN}),
                                        .Y = out(),
                                        .attrs = {.act = act}});
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    return program;
  }
  void clear() const { REQUIRE(cudaMemset(y, 0, kM * kN * sizeof(float)) == cudaSuccess); }
  /// Whether every element is `expected`.
  [[nodiscard]] bool holds(float expected) const {
    for (const float value : download(y, kM * kN)) {
      if (value != expected) return false;
    }
    return true;
  }
};

inline constexpr ai::CaptureOptions kQuick{.tuning = ai::Tuning::Off};

inline ai::Executable captured(const ai::Program& program) {
  ai::Result<ai::Executable> executable = ai::capture(program, kQuick);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(executable).value();
}

inline ai::UserStep user_step(const Layer& layer,
                              std::function<ai::Status(const ai::StepContext&)> cuda) {
  ai::UserStep step;
  step.name = "mine";
  step.reads = {layer.out()};
  step.writes = {layer.out()};
  step.cuda = std::move(cuda);
  return step;
}

}  // namespace gpu
