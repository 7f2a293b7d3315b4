#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ai/activation.hpp"

namespace bench {

/// Names of the tensors of a row, the same for every contestant in every language.
inline constexpr std::uint32_t kInput = 1;
inline constexpr std::uint32_t kGivenGradient = 2;
inline constexpr std::uint32_t kTarget = 3;
[[nodiscard]] inline constexpr std::uint32_t weight_id(int layer) {
  return 100U + static_cast<std::uint32_t>(layer);
}
[[nodiscard]] inline constexpr std::uint32_t bias_id(int layer) {
  return 200U + static_cast<std::uint32_t>(layer);
}

[[nodiscard]] AI_HOST_DEVICE inline constexpr std::uint32_t hash(std::uint32_t tensor,
                                                                 std::uint32_t i) {
  std::uint32_t x = i * 2654435761U + tensor * 40503U + 12345U;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

/// Element `i` of `tensor` before scaling, in [-1, 1); every step is exact in f32.
[[nodiscard]] AI_HOST_DEVICE inline constexpr float unit_value(std::uint32_t tensor,
                                                               std::uint32_t i) {
  return static_cast<float>(hash(tensor, i) >> 8) / 8388608.0F - 1.0F;
}

inline constexpr float kBiasScale = 0.1F;
/// Keeps the variance of uniform inputs from layer to layer.
[[nodiscard]] inline float weight_scale(int fan_in) {
  return static_cast<float>(std::sqrt(3.0 / fan_in));
}

/// What outputs hold before anything is written: a NaN that no computation gives.
inline constexpr std::uint32_t kPoisonBits = 0x7fc0deadU;
[[nodiscard]] inline bool is_poison(float value) {
  return std::bit_cast<std::uint32_t>(value) == kPoisonBits;
}

}  // namespace bench
