#include "capture/direct_call.hpp"

#include <bit>

namespace ai::detail {
namespace {

const Tensor* given(const std::optional<Tensor>& operand) noexcept {
  return operand ? &*operand : nullptr;
}
const Tensor* given(const std::optional<Gradient>& gradient) noexcept {
  return gradient ? &gradient->tensor : nullptr;
}

void move(Tensor& operand, void* to) noexcept {
  operand.data = to;
}
void move(std::optional<Tensor>& operand, void* to) noexcept {
  if (operand) operand->data = to;
}
void move(std::optional<Gradient>& gradient, void* to) noexcept {
  if (gradient) gradient->tensor.data = to;
}

std::uint64_t bits(float a, float b) noexcept {
  return std::uint64_t{std::bit_cast<std::uint32_t>(a)} << 32 | std::bit_cast<std::uint32_t>(b);
}

/// 0: absent, 1: Overwrite, 2: Accumulate.
std::uint64_t mode(const std::optional<Gradient>& gradient) noexcept {
  return gradient ? 1 + static_cast<std::uint64_t>(gradient->mode) : 0;
}

}  // namespace

DirectCall::DirectCall(const GemmForward& call) noexcept
    : forward_(&call),
      operands_{&call.A, &call.B, given(call.C), given(call.bias), &call.Y, given(call.Z)},
      slots_(6),
      first_output_(4),
      in_place_(call.C && call.C->data == call.Y.data && call.Y.data != nullptr) {}

DirectCall::DirectCall(const GemmBackward& call) noexcept
    : backward_(&call),
      operands_{&call.A,        &call.B,        given(call.C),  &call.gY,         given(call.Z),
                given(call.gA), given(call.gB), given(call.gC), given(call.gBias)},
      slots_(9),
      first_output_(5) {}

Result<GemmPlan> DirectCall::plan() const noexcept {
  return forward_ != nullptr ? plan_forward(*forward_) : plan_backward(*backward_);
}

Result<GemmPlan> DirectCall::plan_at(
    const std::array<void*, kMostSlots>& addresses) const noexcept {
  std::size_t slot = 0;
  if (forward_ != nullptr) {
    GemmForward call = *forward_;
    move(call.A, addresses[slot++]);
    move(call.B, addresses[slot++]);
    move(call.C, addresses[slot++]);
    move(call.bias, addresses[slot++]);
    move(call.Y, addresses[slot++]);
    move(call.Z, addresses[slot++]);
    return plan_forward(call);
  }
  GemmBackward call = *backward_;
  move(call.A, addresses[slot++]);
  move(call.B, addresses[slot++]);
  move(call.C, addresses[slot++]);
  move(call.gY, addresses[slot++]);
  move(call.Z, addresses[slot++]);
  for (std::optional<Gradient>* gradient : {&call.gA, &call.gB, &call.gC, &call.gBias}) {
    move(*gradient, addresses[slot++]);
  }
  return plan_backward(call);
}

void DirectKey::add(const Tensor* operand) noexcept {
  if (operand == nullptr) return add(std::uint64_t{0});
  const TensorDesc& desc = operand->desc;
  const int rank = desc.shape.rank();
  valid_ = valid_ && rank >= 0 && rank <= 2 && desc.stride.rank() == rank;
  add(std::uint64_t{1} | static_cast<std::uint64_t>(desc.dtype) << 8 |
      static_cast<std::uint64_t>(desc.layout) << 16 | static_cast<std::uint64_t>(rank) << 24 |
      static_cast<std::uint64_t>(operand->device) << 26 |
      std::uint64_t{operand->data == nullptr} << 28 | alignment_of(operand->data) << 32 |
      static_cast<std::uint64_t>(static_cast<std::uint16_t>(operand->device_index)) << 48);
  add(packed(desc.shape));
  add(packed(desc.stride));
}

std::uint64_t DirectKey::packed(const Extents& extents) noexcept {
  const auto a = static_cast<std::uint64_t>(extents[0]);
  const auto b = static_cast<std::uint64_t>(extents[1]);
  valid_ = valid_ && ((a | b) >> 32) == 0;
  return a << 32 | b;
}

DirectKey::DirectKey(const DirectCall& call) noexcept {
  const bool is_forward = call.forward_ != nullptr;
  const GemmAttrs& attrs = is_forward ? call.forward_->attrs : call.backward_->attrs;
  std::uint64_t flags = std::uint64_t{is_forward} | std::uint64_t{attrs.trans_a} << 1 |
                        std::uint64_t{attrs.trans_b} << 2 | std::uint64_t{attrs.with_bias} << 3 |
                        std::uint64_t{attrs.save_z} << 4 | std::uint64_t{call.in_place()} << 5 |
                        static_cast<std::uint64_t>(attrs.act) << 8 |
                        static_cast<std::uint64_t>(attrs.precision) << 40;
  if (!is_forward) {
    const GemmBackward& backward = *call.backward_;
    flags |= (mode(backward.gA) | mode(backward.gB) << 2 | mode(backward.gC) << 4 |
              mode(backward.gBias) << 6)
             << 48;
  }
  add(flags);
  add(bits(attrs.leaky_slope, attrs.alpha));
  add(bits(attrs.beta, 0.0F));
  for (std::size_t slot = 0; slot < call.slots(); ++slot) add(call.operand(slot));

  // Four chains side by side: one would wait for its multiplications.
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
  std::array<std::uint64_t, 4> chains = {count_, 1, 2, 3};
  for (std::size_t i = 0; i < kWords; i += chains.size()) {
    for (std::size_t j = 0; j < chains.size(); ++j) {
      chains[j] = (chains[j] ^ words_[i + j]) * kFactor;
      chains[j] ^= chains[j] >> 32;
    }
  }
  std::uint64_t hash = 0;
  for (const std::uint64_t chain : chains) hash = (hash ^ chain) * kFactor;
  hash_ = static_cast<std::size_t>(hash ^ hash >> 32);
}

}  // namespace ai::detail
