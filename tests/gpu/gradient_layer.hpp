#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "layer.hpp"

namespace gpu {

/// A backward call that needs scratch, with results that are known and exact: A of 0.5, B of 2, Z
/// of 1 under ReLU, so that gZ = gY = `gy` everywhere.
class GradientLayer {
 public:
  GradientLayer(int m, int n, int k, float gy = 1.0F, ai::GradMode mode = ai::GradMode::Overwrite)
      : m_(m), n_(n), k_(k), gy_value_(gy), mode_(mode) {}
  ~GradientLayer() {
    for (float* data : {a_, b_, gy_, z_, ga_, gb_, gbias_}) (void)cudaFree(data);
  }
  GradientLayer(const GradientLayer&) = delete;
  GradientLayer& operator=(const GradientLayer&) = delete;

  [[nodiscard]] ai::GemmBackward call() const {
    return {.A = ai::make_tensor_2d(a_, {m_, k_}),
            .B = ai::make_tensor_2d(b_, {k_, n_}),
            .gY = ai::make_tensor_2d(gy_, {m_, n_}),
            .Z = ai::make_tensor_2d(z_, {m_, n_}),
            .gA = ai::Gradient(ai::make_tensor_2d(ga_, {m_, k_}), mode_),
            .gB = ai::Gradient(ai::make_tensor_2d(gb_, {k_, n_}), mode_),
            .gBias = ai::Gradient(ai::make_tensor_2d(gbias_, {1, n_}), mode_),
            .attrs = {.act = ai::ActKind::ReLU}};
  }
  [[nodiscard]] ai::Program program() const {
    const auto plan = ai::plan_backward(call());
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    return program;
  }
  /// Bytes of gZ: the least scratch that a call can do with.
  [[nodiscard]] std::size_t scratch_bytes() const { return count(m_, n_) * sizeof(float); }

  /// Gradients to 0, ready to be replaced or added to.
  void clear() const {
    for (const auto& [data, elements, name, value] : gradients()) {
      REQUIRE(cudaMemset(data, 0, elements * sizeof(float)) == cudaSuccess);
    }
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  /// Why the gradients are not those of one call, or (Accumulate) of `calls` since clear(); empty
  /// if they are. What writes them has ended.
  [[nodiscard]] std::string wrong(int calls = 1) const {
    const float factor = mode_ == ai::GradMode::Accumulate ? static_cast<float>(calls) : 1.0F;
    for (const auto& [data, elements, name, value] : gradients()) {
      const std::vector<float> given = download(data, elements);
      for (std::size_t i = 0; i < elements; ++i) {
        if (given[i] == value * factor) continue;
        return std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(given[i]) +
               ", expected " + std::to_string(value * factor);
      }
    }
    return {};
  }

 private:
  struct Output {
    float* data;
    std::size_t elements;
    const char* name;
    float value;
  };
  [[nodiscard]] std::vector<Output> gradients() const {
    const auto m = static_cast<float>(m_);
    const auto n = static_cast<float>(n_);
    return {{ga_, count(m_, k_), "gA", 2.0F * n * gy_value_},
            {gb_, count(k_, n_), "gB", 0.5F * m * gy_value_},
            {gbias_, count(1, n_), "gBias", m * gy_value_}};
  }
  [[nodiscard]] static std::size_t count(int rows, int cols) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  [[nodiscard]] static float* filled(int rows, int cols, float value) {
    return device_buffer(std::vector<float>(count(rows, cols), value));
  }

  int m_, n_, k_;
  float gy_value_;
  ai::GradMode mode_;
  float* a_ = filled(m_, k_, 0.5F);
  float* b_ = filled(k_, n_, 2.0F);
  float* gy_ = filled(m_, n_, gy_value_);
  float* z_ = filled(m_, n_, 1.0F);
  float* ga_ = filled(m_, k_, 0.0F);
  float* gb_ = filled(k_, n_, 0.0F);
  float* gbias_ = filled(1, n_, 0.0F);
};

}  // namespace gpu
