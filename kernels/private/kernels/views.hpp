#pragma once

#include <cstdint>
#include <optional>

#include "ai/memory.hpp"
#include "ai/tensor.hpp"

namespace ai::kernels {

/// A row-major f32 matrix: element (r, c) at data[r * ld + c]. What a step keeps of a plan's tensor
/// and what a kernel gets of it. Null `data` stands for an operand that is absent.
struct MatrixView {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
};

/// `count` f32 elements, `stride` elements apart. Null `data`: absent.
struct VectorView {
  float* data = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

/// Precondition: `tensor` is a matrix of a GemmPlan. A single row gets ld = cols, since its leading
/// dimension has no meaning.
[[nodiscard]] inline MatrixView matrix_view(const Tensor& tensor) noexcept {
  const std::int64_t rows = tensor.desc.shape[0];
  const std::int64_t cols = tensor.desc.shape[1];
  return {static_cast<float*>(tensor.data), rows, cols, rows <= 1 ? cols : tensor.desc.stride[0]};
}
[[nodiscard]] inline MatrixView matrix_view(const std::optional<Tensor>& tensor) noexcept {
  return tensor ? matrix_view(*tensor) : MatrixView{};
}

/// Precondition: `tensor` is a bias or gBias of a GemmPlan.
[[nodiscard]] inline VectorView vector_view(const Tensor& tensor) noexcept {
  return {static_cast<float*>(tensor.data), tensor.desc.shape[0], tensor.desc.stride[0]};
}
[[nodiscard]] inline VectorView vector_view(const std::optional<Tensor>& tensor) noexcept {
  return tensor ? vector_view(*tensor) : VectorView{};
}

/// A packed [rows, cols] matrix at `data` (a symbolic address, as a rule).
[[nodiscard]] inline MatrixView packed(void* data, std::int64_t rows, std::int64_t cols) noexcept {
  return {static_cast<float*>(data), rows, cols, cols};
}

/// The bytes of a view, for Step::reads and Step::writes.
using ai::range_of;
[[nodiscard]] inline MemoryRange range_of(const MatrixView& view) noexcept {
  constexpr std::int64_t kSize = sizeof(float);
  return {reinterpret_cast<std::uintptr_t>(view.data), view.rows, view.cols * kSize,
          view.ld * kSize};
}
[[nodiscard]] inline MemoryRange range_of(const VectorView& view) noexcept {
  constexpr std::int64_t kSize = sizeof(float);
  return {reinterpret_cast<std::uintptr_t>(view.data), view.count, kSize, view.stride * kSize};
}

/// The same view over the address that stands for its own in one recording. Null stays null.
template <typename View>
[[nodiscard]] View mapped(const AddressMap& addresses, View view) noexcept {
  if (view.data != nullptr) view.data = static_cast<float*>(addresses(view.data));
  return view;
}

}  // namespace ai::kernels
