#pragma once

#include <cstdint>

#include "kernels/epilogue.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels {

/// What the small kernel is given: Z = raw + bias, in place where Z is kept, Y = act(Z). Every
/// index is below 2^31.
struct SmallEpilogue {
  float* raw = nullptr;
  float* y = nullptr;
  const float* bias = nullptr;  ///< null: none
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint32_t ld_raw = 0;
  std::uint32_t ld_y = 0;
  std::uint32_t bias_row = 0;
  std::uint32_t bias_col = 0;
  float slope = 0.0F;
};

/// What one thread does. A launch is over in the time that it takes to fetch and run this once, so
/// it has no loop and no branch, and nothing waits for anything but the loads.
template <ActKind kAct, bool kWithZ>
AI_HOST_DEVICE inline void small_epilogue_element(const SmallEpilogue& call, std::uint32_t row,
                                                  std::uint32_t col) {
  float* const at = call.raw + (row * call.ld_raw + col);
  float bias = -0.0F;  // adding it leaves every z as it is, -0 too
  if (call.bias != nullptr) bias = call.bias[row * call.bias_row + col * call.bias_col];
  const float z = *at + bias;
  if constexpr (kWithZ) *at = z;
  call.y[row * call.ld_y + col] = activation::apply<kAct>(z, call.slope);
}

/// The kernel `void(SmallEpilogue)`: a thread for each element, columns along x, rows along y.
[[nodiscard]] const void* small_epilogue_kernel(ActKind act, bool with_z) noexcept;

}  // namespace ai::kernels
