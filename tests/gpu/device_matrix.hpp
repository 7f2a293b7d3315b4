#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "patterns.hpp"
#include "roads.hpp"

namespace gpu {

/// A matrix in device memory alone, between guards, for sizes that the host would take long over.
/// All work on it is on road_stream(). Elements, padding and guards start as NaN with all bits set.
class DeviceMatrix {
 public:
  /// `ld` = 0: packed.
  DeviceMatrix(std::int64_t rows, std::int64_t cols, std::int64_t ld = 0)
      : view_{nullptr, rows, cols, ld > 0 ? ld : (cols > 0 ? cols : 1), kGuard} {
    const cudaError_t error = cudaMalloc(&memory_, bytes());
    REQUIRE_MESSAGE(error == cudaSuccess, "no ", bytes(), " bytes of device memory for a [", rows,
                    ",", cols, "] matrix: ", std::string(cudaGetErrorString(error)));
    view_.data = static_cast<float*>(memory_) + kGuard;
    poison();
  }
  ~DeviceMatrix() { (void)cudaFree(memory_); }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix& operator=(const DeviceMatrix&) = delete;

  [[nodiscard]] ai::Tensor tensor() const {
    return ai::make_tensor_2d(view_.data, {view_.rows, view_.cols}, ai::DType::F32,
                              ai::Device::CUDA, 0, view_.ld);
  }
  [[nodiscard]] const DeviceView& view() const { return view_; }

  void poison() { REQUIRE(cudaMemsetAsync(memory_, 0xff, bytes(), road_stream()) == cudaSuccess); }
  void fill(const Pattern& pattern) { fill(pattern, 0, view_.cols); }
  /// Some columns only.
  void fill(const Pattern& pattern, std::int64_t first_col, std::int64_t cols) {
    REQUIRE(fill_pattern(view_, pattern, first_col, cols, road_stream()) == cudaSuccess);
  }

  /// Empty where the elements are the pattern's and nothing outside of them was written.
  [[nodiscard]] std::string difference(const char* name, const Pattern& pattern,
                                       double tolerance = 0.0) const {
    const Findings none;
    Findings found;
    void* device = nullptr;
    REQUIRE(cudaMalloc(&device, sizeof found) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(device, &none, sizeof none, cudaMemcpyHostToDevice, road_stream()) ==
            cudaSuccess);
    REQUIRE(check_pattern(view_, pattern, tolerance, static_cast<Findings*>(device),
                          road_stream()) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(&found, device, sizeof found, cudaMemcpyDeviceToHost, road_stream()) ==
            cudaSuccess);
    const cudaError_t error = cudaStreamSynchronize(road_stream());
    REQUIRE_MESSAGE(error == cudaSuccess, std::string(cudaGetErrorString(error)));
    (void)cudaFree(device);
    std::string text;
    if (found.wrong > 0) {
      const auto first = static_cast<std::int64_t>(found.first);
      const std::int64_t row = first / view_.cols;
      const std::int64_t col = first % view_.cols;
      text = std::string(name) + "[" + std::to_string(row) + "," + std::to_string(col) + "] is " +
             std::to_string(at(row, col)) + " (" + std::to_string(found.wrong) + " of " +
             std::to_string(view_.rows * view_.cols) + " wrong)";
    }
    if (found.touched > 0) {
      text += std::string(text.empty() ? "" : "; ") + name +
              " was left: " + std::to_string(found.touched) +
              " floats beside its elements were written";
    }
    return text;
  }

  [[nodiscard]] float at(std::int64_t row, std::int64_t col) const {
    float value = 0.0F;
    REQUIRE(cudaStreamSynchronize(road_stream()) == cudaSuccess);
    REQUIRE(cudaMemcpy(&value, view_.data + row * view_.ld + col, sizeof value,
                       cudaMemcpyDeviceToHost) == cudaSuccess);
    return value;
  }

 private:
  static constexpr std::int64_t kGuard = 64;  // floats: keeps 256-byte alignment

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(view_.rows * view_.ld + 2 * kGuard) * sizeof(float);
  }

  DeviceView view_;
  void* memory_ = nullptr;
};

/// A bias of an [m,n] matrix, of rank 2 so that its kind is plain even where m = n.
[[nodiscard]] inline std::pair<std::int64_t, std::int64_t> bias_shape(ai::BiasKind kind,
                                                                      std::int64_t m,
                                                                      std::int64_t n) {
  if (kind == ai::BiasKind::PerN) return {1, n};
  if (kind == ai::BiasKind::PerM) return {m, 1};
  return {1, 1};
}

inline constexpr ai::BiasKind kSums[] = {ai::BiasKind::Scalar, ai::BiasKind::PerN,
                                         ai::BiasKind::PerM};

/// gBias alone of gY: nothing else of the call exists.
[[nodiscard]] inline ai::GemmBackward gbias_call(const DeviceMatrix& gy,
                                                 const DeviceMatrix& gbias) {
  ai::GemmBackward call;
  call.A = ai::make_tensor_2d(nullptr, {gy.view().rows, 0});
  call.B = ai::make_tensor_2d(nullptr, {0, gy.view().cols});
  call.gY = gy.tensor();
  call.gBias = ai::Gradient(gbias.tensor());
  return call;
}

}  // namespace gpu
