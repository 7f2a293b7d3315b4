#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <functional>
#include <utility>
#include <vector>

#include "ai/ai.hpp"

/// What the tests of captures and lifetimes work with: a stream, a layer with a known result, and
/// an executable of it. What is put into device memory here is there when the function returns:
/// a copy from pageable memory need not be, and streams that do not wait for the legacy stream
/// would come too early.
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
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  return static_cast<float*>(data);
}

inline std::vector<float> download(const float* data, std::size_t count) {
  std::vector<float> values(count);
  REQUIRE(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  return values;
}

[[nodiscard]] inline ai::Status to_status(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return {ai::StatusCode::CudaError, cudaGetErrorString(error)};
}

/// Y = A B with A [kM,kK] of 0.5 and B [kK,kN] of 2, so that each element is kK.
template <int kRows, int kCols, int kDepth>
struct LayerOf {
  static constexpr int kM = kRows, kN = kCols, kK = kDepth;
  float* a = device_buffer(std::vector<float>(kM * kK, 0.5F));
  float* b = device_buffer(std::vector<float>(kK * kN, 2.0F));
  float* y = device_buffer(std::vector<float>(kM * kN, -1.0F));

  LayerOf() = default;
  ~LayerOf() {
    for (float* data : {a, b, y}) (void)cudaFree(data);
  }
  LayerOf(const LayerOf&) = delete;
  LayerOf& operator=(const LayerOf&) = delete;

  [[nodiscard]] ai::Tensor out() const { return ai::make_tensor_2d(y, {kM, kN}); }
  [[nodiscard]] ai::GemmForward call(ai::ActKind act = ai::ActKind::None) const {
    return {.A = ai::make_tensor_2d(a, {kM, kK}),
            .B = ai::make_tensor_2d(b, {kK, kN}),
            .Y = out(),
            .attrs = {.act = act}};
  }
  [[nodiscard]] ai::Program program(ai::ActKind act = ai::ActKind::None) const {
    ai::Program program;
    add_product(program, out(), act);
    return program;
  }
  /// The product goes to a temporary; a user step calls `before_copy(stream)` and copies it to Y.
  [[nodiscard]] ai::Program program_through_temporary(
      ai::ActKind act, std::function<cudaError_t(cudaStream_t)> before_copy) const {
    ai::Program program;
    const auto hidden = program.temporary(out().desc);
    REQUIRE_MESSAGE(hidden.ok(), hidden.status().to_string());
    add_product(program, *hidden, act);
    ai::UserStep copy;
    copy.name = "copy";
    copy.reads = {*hidden};
    copy.writes = {out()};
    copy.cuda = [before_copy = std::move(before_copy)](const ai::StepContext& context) {
      const cudaError_t error = before_copy(context.stream);
      if (error != cudaSuccess) return to_status(error);
      return to_status(cudaMemcpyAsync(context.writes[0].data, context.reads[0].data,
                                       kM * kN * sizeof(float), cudaMemcpyDeviceToDevice,
                                       context.stream));
    };
    REQUIRE(program.add(std::move(copy)).ok());
    return program;
  }
  void clear() const {
    REQUIRE(cudaMemset(y, 0, kM * kN * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  /// Whether every element is `expected`.
  [[nodiscard]] bool holds(float expected) const {
    for (const float value : download(y, kM * kN)) {
      if (value != expected) return false;
    }
    return true;
  }

 private:
  void add_product(ai::Program& program, const ai::Tensor& to, ai::ActKind act) const {
    ai::GemmForward product = call(act);
    product.Y = to;
    const auto plan = ai::plan_forward(product);
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    REQUIRE(program.add(*plan).ok());
  }
};

using Layer = LayerOf<24, 40, 56>;

inline const ai::CaptureOptions kQuick{.tuning = ai::Tuning::Off};

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
