#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ai/gemm.hpp"
#include "ai/tensor.hpp"

/// Host memory posing as a CUDA tensor, 256-byte aligned plus `offset` floats, filled with small
/// integers, so that every sum is exact; 0.5 in the padding, which must stay.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols, std::int64_t pad = 0, std::int64_t offset = 0,
         std::uint32_t seed = 1)
      : rows_(rows), cols_(cols), ld_(cols + pad) {
    const std::int64_t count = rows * ld_ + 1;
    block_ = std::make_unique<float[]>(static_cast<std::size_t>(count + offset + 64));
    const auto begin = reinterpret_cast<std::uintptr_t>(block_.get());
    data_ = reinterpret_cast<float*>((begin + 255) / 256 * 256) + offset;
    for (std::int64_t i = 0; i < count; ++i) data_[i] = 0.5F;
    std::uint32_t state = seed;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        state = state * 1664525U + 1013904223U;
        at(r, c) = static_cast<float>(static_cast<int>(state >> 28) - 8);
      }
    }
  }

  [[nodiscard]] float& at(std::int64_t r, std::int64_t c) { return data_[r * ld_ + c]; }
  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] ai::Tensor tensor() const {
    return ai::make_tensor_2d(data_, {rows_, cols_}, ai::DType::F32, ai::Device::CUDA, 0, ld_);
  }
  void fill(float value) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < cols_; ++c) at(r, c) = value;
    }
  }
  [[nodiscard]] bool padding_is_untouched() const {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = cols_; c < ld_; ++c) {
        if (data_[r * ld_ + c] != 0.5F) return false;
      }
    }
    return data_[rows_ * ld_] == 0.5F;
  }

 private:
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t ld_;
  std::unique_ptr<float[]> block_;
  float* data_ = nullptr;
};
