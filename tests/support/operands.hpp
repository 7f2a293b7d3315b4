#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ai/gemm.hpp"

namespace support {

/// A float with these bits.
[[nodiscard]] inline float from_bits(std::uint32_t bits) {
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
[[nodiscard]] inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline constexpr std::uint32_t kCanaryBits = 0x7fc0c0deU;  // both are NaN: reading either spreads
inline constexpr std::uint32_t kPoisonBits = 0x7fc0deadU;

/// A strided matrix in host memory between guards. Guards and padding hold canaries, so a write
/// beside the elements is seen and a read beside them gives NaN. A device test copies all of raw()
/// there and back; addresses are then raw's device address plus the same offset.
class Buffer {
 public:
  static constexpr std::int64_t kGuard = 64;  // floats: keeps 256-byte alignment at offset 0

  /// The first element is `offset` floats past an aligned place. `col_stride` other than 1 is for
  /// vectors (rows or cols 1).
  Buffer(std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::int64_t col_stride = 1,
         std::int64_t offset = 0)
      : rows_(rows),
        cols_(cols),
        row_stride_(row_stride),
        col_stride_(col_stride),
        begin_(kGuard + offset) {
    const bool is_empty = rows <= 0 || cols <= 0;
    const std::int64_t span = is_empty ? 0 : (rows - 1) * row_stride + (cols - 1) * col_stride + 1;
    raw_.assign(static_cast<std::size_t>(begin_ + span + kGuard), from_bits(kCanaryBits));
    is_element_.assign(raw_.size(), false);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) is_element_[index(r, c)] = true;
    }
    fill(from_bits(kPoisonBits));
  }

  [[nodiscard]] static Buffer matrix(std::int64_t rows, std::int64_t cols, std::int64_t pad = 0,
                                     std::int64_t offset = 0) {
    return {rows, cols, cols + pad > 0 ? cols + pad : 1, 1, offset};
  }
  /// A bias of an [m,n] matrix, of rank 2 so that its kind is plain even where m = n.
  [[nodiscard]] static Buffer bias(ai::BiasKind kind, std::int64_t m, std::int64_t n,
                                   std::int64_t stride = 1, std::int64_t offset = 0) {
    if (kind == ai::BiasKind::PerM) return {m, 1, stride, 1, offset};
    const std::int64_t cols = kind == ai::BiasKind::PerN ? n : 1;
    return {1, cols, cols * stride > 0 ? cols * stride : 1, stride, offset};
  }

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  [[nodiscard]] float& at(std::int64_t row, std::int64_t col) { return raw_[index(row, col)]; }
  [[nodiscard]] float at(std::int64_t row, std::int64_t col) const { return raw_[index(row, col)]; }
  [[nodiscard]] std::vector<float>& raw() { return raw_; }
  [[nodiscard]] const std::vector<float>& raw() const { return raw_; }
  [[nodiscard]] std::size_t raw_bytes() const { return raw_.size() * sizeof(float); }

  /// Over raw() itself, or over its copy at `base` on another device.
  [[nodiscard]] ai::Tensor tensor() const {
    return tensor(const_cast<float*>(raw_.data()), ai::Device::CPU, 0);
  }
  [[nodiscard]] ai::Tensor tensor(void* base, ai::Device device, int device_index) const {
    ai::TensorDesc desc;
    desc.shape = {rows_, cols_};
    desc.stride = {row_stride_, col_stride_};
    return {static_cast<float*>(base) + begin_, desc, device, device_index};
  }

  void fill(float value) {
    for_each([&](float& element) { element = value; });
  }
  void poison() { fill(from_bits(kPoisonBits)); }
  /// Calls f(element&) in row-major order.
  template <typename F>
  void for_each(F&& f) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < cols_; ++c) f(at(r, c));
    }
  }

  /// Whether nothing but elements was ever written.
  [[nodiscard]] bool canaries_are_intact() const {
    for (std::size_t i = 0; i < raw_.size(); ++i) {
      if (!is_element_[i] && bits_of(raw_[i]) != kCanaryBits) return false;
    }
    return true;
  }
  [[nodiscard]] bool has_same_bits(const Buffer& other) const {
    return raw_.size() == other.raw_.size() &&
           std::memcmp(raw_.data(), other.raw_.data(), raw_bytes()) == 0;
  }

 private:
  [[nodiscard]] std::size_t index(std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(begin_ + row * row_stride_ + col * col_stride_);
  }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t row_stride_;
  std::int64_t col_stride_;
  std::int64_t begin_;
  std::vector<float> raw_;
  std::vector<bool> is_element_;
};

/// Seeded values, the same on every platform.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  /// Uniform in (-1, 1), every mantissa bit used.
  [[nodiscard]] float uniform() {
    const auto bits = static_cast<float>(next() >> 8);  // 24 bits
    return bits * 0x1p-23F - 1.0F + 0x1p-24F;
  }
  [[nodiscard]] float sign() { return (next() & 1U) != 0 ? 1.0F : -1.0F; }
  /// An integer of 13 significant bits, odd, of either sign: TF32 and BF16 cannot hold it. Sums of
  /// up to 2048 of them are exact in f32.
  [[nodiscard]] float integer_13_bits() {
    const std::uint32_t magnitude = 4097U + 2U * (next() % 2047U);
    return sign() * static_cast<float>(magnitude);
  }

 private:
  [[nodiscard]] std::uint32_t next() { return static_cast<std::uint32_t>(engine_()); }
  std::mt19937 engine_;
};

}  // namespace support
