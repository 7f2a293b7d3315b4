#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "layer.hpp"

/// What the tests of host memory in programs work with.
namespace gpu {

/// Pinned memory of the caller's.
class Pinned {
 public:
  explicit Pinned(std::size_t count, float value = std::numeric_limits<float>::quiet_NaN())
      : count_(count) {
    void* memory = nullptr;
    REQUIRE(cudaHostAlloc(&memory, count * sizeof(float), cudaHostAllocDefault) == cudaSuccess);
    data_ = static_cast<float*>(memory);
    fill(value);
  }
  ~Pinned() { (void)cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  void fill(float value) { std::fill(data_, data_ + count_, value); }
  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] float& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool holds(float value) const {
    return std::all_of(data_, data_ + count_, [=](float v) { return v == value; });
  }

 private:
  float* data_ = nullptr;
  std::size_t count_;
};

inline ai::Tensor on_host(const void* data, std::int64_t rows, std::int64_t cols,
                          std::int64_t ld = 0) {
  return ai::make_tensor_2d(data, {rows, cols}, ai::DType::F32, ai::Device::CPU, 0, ld);
}

inline void require_ok(const ai::Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.to_string());
}

inline void add(ai::Program& program, const ai::GemmForward& call) {
  const auto plan = ai::plan_forward(call);
  require_ok(plan.status());
  require_ok(program.add(*plan));
}

/// The layer of layer.hpp, its A from and its Y to pinned memory: each output is kK * 2 * input.
struct PinnedLayer {
  PinnedLayer() {
    require_ok(program.copy_in(on_host(in.data(), Layer::kM, Layer::kK),
                               ai::make_tensor_2d(layer.a, {Layer::kM, Layer::kK})));
    add(program, {.A = ai::make_tensor_2d(layer.a, {Layer::kM, Layer::kK}),
                  .B = ai::make_tensor_2d(layer.b, {Layer::kK, Layer::kN}),
                  .Y = layer.out()});
    require_ok(program.copy_out(layer.out(), on_host(out.data(), Layer::kM, Layer::kN)));
  }
  [[nodiscard]] static float result(float input) { return 2.0F * Layer::kK * input; }

  Layer layer;
  Pinned in{Layer::kM * Layer::kK};
  Pinned out{Layer::kM * Layer::kN};
  ai::Program program;
};

}  // namespace gpu
