#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ai/tensor.hpp"

namespace ai {

/// The bytes of a strided view: `rows` runs of `width` bytes, `pitch` bytes apart, from `begin`.
/// Empty where rows or width is 0. Device is not part of it: one program has one device, and host
/// memory shares its addresses.
struct MemoryRange {
  std::uintptr_t begin = 0;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t pitch = 0;

  [[nodiscard]] bool empty() const noexcept { return rows <= 0 || width <= 0; }
  /// One past the last byte.
  [[nodiscard]] std::uintptr_t end() const noexcept {
    return empty() ? begin : begin + static_cast<std::uintptr_t>((rows - 1) * pitch + width);
  }
};

/// The bytes that `tensor` (rank 1 or 2, strides set, as a GemmPlan holds it) covers.
[[nodiscard]] MemoryRange range_of(const Tensor& tensor) noexcept;
/// The same of each. May throw std::bad_alloc.
[[nodiscard]] std::vector<MemoryRange> ranges_of(const std::vector<Tensor>& tensors);
/// `bytes` contiguous bytes at `data`.
[[nodiscard]] MemoryRange range_of(const void* data, std::size_t bytes) noexcept;

/// The largest power of two, at most 256, that divides the address: kernels tell no more apart.
[[nodiscard]] inline std::uint32_t alignment_of(const void* address) noexcept {
  const std::uintptr_t low = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return static_cast<std::uint32_t>(low & (~low + 1U));
}

/// Whether two views share a byte. Exact for any pitches, in time logarithmic in the extents: two
/// column halves of one buffer do not overlap.
[[nodiscard]] bool overlaps(const MemoryRange& a, const MemoryRange& b) noexcept;

/// Addresses for storage that exists only once a program is captured: temporaries of a Program and
/// scratch of a Step. They lie above every address a CPU or GPU can hold, are unique in the
/// process, 256-byte aligned and never reused, so that ranges over them can be compared like any
/// other. Thread-safe.
namespace symbolic {
[[nodiscard]] void* allocate(std::size_t bytes) noexcept;
[[nodiscard]] bool is_symbolic(const void* address) noexcept;
}  // namespace symbolic

/// From the addresses that plans and steps were made with to those of one recording: symbolic
/// storage to the executable's workspace, or (when tuning or rebinding) user buffers to others.
/// An address in no entry stands for itself.
class AddressMap {
 public:
  /// Maps [from, from + bytes) to `to`. Entries must not overlap. May throw std::bad_alloc.
  void add(std::uintptr_t from, std::size_t bytes, void* to);
  /// Points the `entry`-th mapping, in ascending order of their addresses, to `to` from now on.
  void retarget(std::size_t entry, void* to) noexcept {
    entries_[entry].to = reinterpret_cast<std::uintptr_t>(to);
  }
  [[nodiscard]] void* operator()(const void* address) const noexcept;
  /// The same tensor over the mapped address.
  [[nodiscard]] Tensor operator()(const Tensor& tensor) const noexcept;

 private:
  struct Entry {
    std::uintptr_t from;
    std::size_t bytes;
    std::uintptr_t to;
  };
  std::vector<Entry> entries_;  // sorted by `from`
};

}  // namespace ai
