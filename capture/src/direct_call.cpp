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

/// 0: absent, 1: Overwrite, 2: Accumulate.
std::uint64_t DirectKey::mode(const std::optional<Gradient>& gradient) noexcept {
  return gradient ? field(static_cast<int>(gradient->mode) + 1, 2) : 0;
}

void DirectKey::add(const Tensor* operand) noexcept {
  if (operand == nullptr) return add(std::uint64_t{0});
  const TensorDesc& desc = operand->desc;
  const int rank = desc.shape.rank();
  valid_ = valid_ && desc.stride.rank() == rank;
  add(std::uint64_t{1} | field(desc.dtype, 8) << 8 | field(desc.layout, 8) << 16 |
      field(rank, 2) << 24 | field(operand->device, 2) << 26 |
      std::uint64_t{operand->data == nullptr} << 28 |
      std::uint64_t{alignment_of(operand->data)} << 32 | field(operand->device_index, 16) << 48);
  const bool is_matrix = rank == 2;
  add(field(desc.shape[0], 32) << 32 | (is_matrix ? field(desc.shape[1], 32) : 0));
  // The leading dimension of a single row has no meaning.
  const bool has_stride = !is_matrix || desc.shape[0] > 1;
  add((has_stride ? field(desc.stride[0], 32) << 32 : 0) |
      (is_matrix ? field(desc.stride[1], 32) : 0));
}

DirectKey::DirectKey(const DirectCall& call) noexcept {
  const bool is_forward = call.forward_ != nullptr;
  const GemmAttrs& attrs = is_forward ? call.forward_->attrs : call.backward_->attrs;
  std::uint64_t flags = std::uint64_t{is_forward} | std::uint64_t{attrs.trans_a} << 1 |
                        std::uint64_t{attrs.trans_b} << 2 | std::uint64_t{attrs.with_bias} << 3 |
                        std::uint64_t{attrs.save_z} << 4 | std::uint64_t{call.in_place()} << 5 |
                        field(attrs.act, 24) << 8 | field(attrs.precision, 8) << 40;
  if (!is_forward) {
    const GemmBackward& backward = *call.backward_;
    flags |= mode(backward.gA) << 48 | mode(backward.gB) << 50 | mode(backward.gC) << 52 |
             mode(backward.gBias) << 54;
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
