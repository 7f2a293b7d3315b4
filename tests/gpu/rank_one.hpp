#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "layer.hpp"

namespace gpu {

/// Y = A B with A[m,k] = f(m) s(k) and B[k,n] = t(k) g(n), all small integers: exact in any order
/// of summation up to a depth of 65536, cheap to know, and no two neighbours of Y are equal.
class RankOne {
 public:
  RankOne(int m, int n, int k) : m_(m), n_(n), k_(k) {
    std::vector<float> a(count(m, k));
    std::vector<float> b(count(k, n));
    for (int row = 0; row < m; ++row) {
      for (int i = 0; i < k; ++i) a[at(row, i, k)] = f(row) * s(i);
    }
    for (int i = 0; i < k; ++i) {
      sum_ += s(i) * t(i);
      for (int col = 0; col < n; ++col) b[at(i, col, n)] = t(i) * g(col);
    }
    a_ = device_buffer(a);
    b_ = device_buffer(b);
    y_ = device_buffer(std::vector<float>(count(m, n)));
  }
  ~RankOne() {
    for (float* data : {a_, b_, y_}) (void)cudaFree(data);
  }
  RankOne(const RankOne&) = delete;
  RankOne& operator=(const RankOne&) = delete;

  [[nodiscard]] ai::GemmForward call() const {
    return {.A = ai::make_tensor_2d(a_, {m_, k_}),
            .B = ai::make_tensor_2d(b_, {k_, n_}),
            .Y = ai::make_tensor_2d(y_, {m_, n_})};
  }
  [[nodiscard]] ai::Program program() const {
    const auto plan = ai::plan_forward(call());
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    return program;
  }
  /// Y to NaN.
  void poison() const {
    REQUIRE(cudaMemset(y_, 0xFF, count(m_, n_) * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  }
  /// Why Y is not the product; empty if it is. What writes it has ended.
  [[nodiscard]] std::string wrong() const {
    const std::vector<float> y = download(y_, count(m_, n_));
    for (int row = 0; row < m_; ++row) {
      for (int col = 0; col < n_; ++col) {
        const float expected = f(row) * g(col) * sum_;
        const float given = y[at(row, col, n_)];
        if (given == expected) continue;
        return "Y[" + std::to_string(row) + "," + std::to_string(col) + "] is " +
               std::to_string(given) + ", expected " + std::to_string(expected);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] static std::size_t count(int rows, int cols) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  [[nodiscard]] static std::size_t at(int row, int col, int cols) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
           static_cast<std::size_t>(col);
  }
  [[nodiscard]] static float f(int row) { return static_cast<float>(1 + row % 7); }
  [[nodiscard]] static float g(int col) { return static_cast<float>(1 + col % 5); }
  [[nodiscard]] static float s(int i) { return i % 3 == 0 ? -1.0F : 1.0F; }
  [[nodiscard]] static float t(int i) { return static_cast<float>(1 + i % 2); }

  int m_, n_, k_;
  float sum_ = 0.0F;
  float* a_ = nullptr;
  float* b_ = nullptr;
  float* y_ = nullptr;
};

}  // namespace gpu
