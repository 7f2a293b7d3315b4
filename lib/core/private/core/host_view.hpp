#pragma once

#include <cstdint>

#include "ai/gemm.hpp"
#include "ai/memory.hpp"

namespace ai::host {

/// A matrix in CPU memory with any strides, 0 among them (an operand that is spread along an axis).
template <typename T>
struct View {
  T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;

  [[nodiscard]] T& at(std::int64_t row, std::int64_t col) const noexcept {
    return data[row * row_stride + col * col_stride];
  }
};

/// The matrix as stored, or its transpose. `T` is float or const float.
template <typename T>
[[nodiscard]] View<T> matrix_view(const Tensor& tensor, bool transposed = false) noexcept {
  const std::int64_t ld = tensor.desc.stride[0];
  return {static_cast<T*>(tensor.data), transposed ? 1 : ld, transposed ? ld : 1};
}

/// A bias vector as the [M,N] matrix it stands for.
[[nodiscard]] inline View<const float> bias_view(const Tensor& bias, BiasKind kind) noexcept {
  const std::int64_t stride = bias.desc.stride[0];
  return {static_cast<const float*>(bias.data), kind == BiasKind::PerM ? stride : 0,
          kind == BiasKind::PerN ? stride : 0};
}

}  // namespace ai::host
