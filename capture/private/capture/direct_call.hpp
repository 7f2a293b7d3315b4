#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ai/gemm.hpp"
#include "ai/memory.hpp"

namespace ai::detail {

/// A call of either direction as the direct path sees it: slots for operands in a fixed order. It
/// borrows the call and checks nothing.
class DirectCall {
 public:
  static constexpr std::size_t kMostSlots = 9;
  static constexpr std::size_t kForwardC = 2;  ///< slots of a forward call
  static constexpr std::size_t kForwardY = 4;

  explicit DirectCall(const GemmForward& call) noexcept;
  explicit DirectCall(const GemmBackward& call) noexcept;

  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
  /// Null where the operand was not given.
  [[nodiscard]] const Tensor* operand(std::size_t slot) const noexcept { return operands_[slot]; }
  /// The slots from this one on are outputs; those before it are not.
  [[nodiscard]] std::size_t first_output() const noexcept { return first_output_; }
  [[nodiscard]] int device() const noexcept { return operands_[0]->device_index; }
  /// C and Y of a forward call begin at one address, as they may.
  [[nodiscard]] bool in_place() const noexcept { return in_place_; }

  /// plan_forward or plan_backward of the call.
  [[nodiscard]] Result<GemmPlan> plan() const noexcept;
  /// Likewise with the operand in each slot at another address.
  [[nodiscard]] Result<GemmPlan> plan_at(
      const std::array<void*, kMostSlots>& addresses) const noexcept;

 private:
  friend class DirectKey;

  const GemmForward* forward_ = nullptr;
  const GemmBackward* backward_ = nullptr;
  std::array<const Tensor*, kMostSlots> operands_{};
  std::size_t slots_ = 0;
  std::size_t first_output_ = 0;
  bool in_place_ = false;
};

/// What calls have in common that one plan can serve: everything but where operands lie; of that
/// the alignment alone, up to 256 bytes, and whether it is null.
class DirectKey {
 public:
  DirectKey() noexcept = default;  ///< the key of no call
  explicit DirectKey(const DirectCall& call) noexcept;

  /// Whether a key can tell the call from others. It cannot where a rank, an enumerator or a device
  /// is out of bounds (planning such a call fails) or an extent does not fit 32 bits (planning
  /// costs nothing beside such a call).
  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] std::size_t hash() const noexcept { return hash_; }
  [[nodiscard]] friend bool operator==(const DirectKey& a, const DirectKey& b) noexcept {
    return a.count_ == b.count_ && a.words_ == b.words_;
  }

 private:
  static constexpr std::size_t kWordsPerSlot = 3;
  // The hash takes four at a time.
  static constexpr std::size_t kWords = (DirectCall::kMostSlots * kWordsPerSlot + 3 + 3) / 4 * 4;
  void add(std::uint64_t word) noexcept { words_[count_++] = word; }
  void add(const Tensor* operand) noexcept;
  [[nodiscard]] std::uint64_t mode(const std::optional<Gradient>& gradient) noexcept;
  /// `value` as a field of `bits` bits.
  template <typename Value>
  [[nodiscard]] std::uint64_t field(Value value, unsigned bits) noexcept {
    const auto wide = static_cast<std::uint64_t>(value);  // a negative one becomes very large
    valid_ = valid_ && wide >> bits == 0;
    return wide;
  }

  std::array<std::uint64_t, kWords> words_{};
  std::size_t count_ = 0;
  std::size_t hash_ = 0;
  bool valid_ = true;
};

struct DirectKeyHash {
  [[nodiscard]] std::size_t operator()(const DirectKey& key) const noexcept { return key.hash(); }
};

}  // namespace ai::detail
