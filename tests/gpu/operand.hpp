#pragma once

#include <cstdint>
#include <string_view>

#include "ai/gemm.hpp"
#include "support/operands.hpp"

/// Single operands of a call, by name, to be moved or bent.
namespace gpu {

/// Null where the call has no such operand.
[[nodiscard]] inline ai::Tensor* operand(ai::GemmForward& call, std::string_view name) {
  if (name == "A") return &call.A;
  if (name == "B") return &call.B;
  if (name == "C") return call.C ? &*call.C : nullptr;
  if (name == "bias") return call.bias ? &*call.bias : nullptr;
  if (name == "Y") return &call.Y;
  return name == "Z" && call.Z ? &*call.Z : nullptr;
}
[[nodiscard]] inline ai::Tensor* operand(ai::GemmBackward& call, std::string_view name) {
  if (name == "A") return &call.A;
  if (name == "B") return &call.B;
  if (name == "C") return call.C ? &*call.C : nullptr;
  if (name == "gY") return &call.gY;
  if (name == "Z") return call.Z ? &*call.Z : nullptr;
  auto* gradient = name == "gA"   ? &call.gA
                   : name == "gB" ? &call.gB
                   : name == "gC" ? &call.gC
                                  : &call.gBias;
  return *gradient ? &(*gradient)->tensor : nullptr;
}

/// The same elements in another place: rows `pad` floats further apart, the first element `offset`
/// floats past an aligned address.
[[nodiscard]] inline support::Buffer relaid(const support::Buffer& buffer, std::int64_t pad,
                                            std::int64_t offset) {
  const ai::Extents stride = buffer.tensor().desc.stride;
  support::Buffer moved(buffer.rows(), buffer.cols(), stride[0] + pad, stride[1], offset);
  for (std::int64_t row = 0; row < buffer.rows(); ++row) {
    for (std::int64_t col = 0; col < buffer.cols(); ++col) moved.at(row, col) = buffer.at(row, col);
  }
  return moved;
}

}  // namespace gpu
