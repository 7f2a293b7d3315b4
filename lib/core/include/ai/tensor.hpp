#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace ai {

enum class Device { CPU, CUDA };
enum class DType { F32, F16, BF16, I32, I8 };
enum class Layout { RowMajor, ColMajor };

[[nodiscard]] const char* to_string(Device device) noexcept;
[[nodiscard]] const char* to_string(DType dtype) noexcept;
[[nodiscard]] const char* to_string(Layout layout) noexcept;
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;

/// Up to four extents or strides, stored in place.
class Extents {
 public:
  static constexpr int kMaxRank = 4;

  constexpr Extents() noexcept = default;
  /// Values past kMaxRank are dropped, but counted in rank(), so that validation refuses them.
  constexpr Extents(std::initializer_list<std::int64_t> values) noexcept
      : rank_(static_cast<int>(values.size())) {
    int i = 0;
    for (const std::int64_t value : values) {
      if (i < kMaxRank) values_[static_cast<std::size_t>(i++)] = value;
    }
  }

  [[nodiscard]] constexpr int rank() const noexcept { return rank_; }
  [[nodiscard]] constexpr std::int64_t operator[](int i) const noexcept {
    return values_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] constexpr std::int64_t& operator[](int i) noexcept {
    return values_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] friend constexpr bool operator==(const Extents&, const Extents&) noexcept = default;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

/// How elements lie in memory. `stride` counts elements, one entry per extent.
struct TensorDesc {
  DType dtype = DType::F32;
  Layout layout = Layout::RowMajor;
  Extents shape = {};
  Extents stride = {};
};

/// A borrowed pointer and its description. Owns nothing and may be copied freely; the memory must
/// outlive every plan's executable that was captured over it.
struct Tensor {
  void* data = nullptr;
  TensorDesc desc = {};
  Device device = Device::CUDA;
  int device_index = 0;
};

/// A row-major matrix of `shape` = {rows, cols} at `data`, row r starting at element r * ld.
/// `ld` = 0 means cols. Nothing is checked here: plan_forward and plan_backward do that, and name
/// the operand. `data` is written only where the tensor is given as an output.
[[nodiscard]] Tensor make_tensor_2d(const void* data, Extents shape, DType dtype = DType::F32,
                                    Device device = Device::CUDA, int device_index = 0,
                                    std::int64_t ld = 0) noexcept;

/// A vector of `count` elements at `data`, `stride` elements apart.
[[nodiscard]] Tensor make_tensor_1d(const void* data, std::int64_t count, DType dtype = DType::F32,
                                    Device device = Device::CUDA, int device_index = 0,
                                    std::int64_t stride = 1) noexcept;

}  // namespace ai
