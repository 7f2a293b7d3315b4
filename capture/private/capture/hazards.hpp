#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ai/memory.hpp"

namespace ai::detail {

/// What a step reads and writes at the addresses of one binding; symbolic storage as it is.
struct Footprint {
  std::size_t step = 0;
  std::vector<MemoryRange> reads = {};
  std::vector<MemoryRange> writes = {};
};

/// Which steps of a list must wait for which earlier ones, kept so that it costs little to find
/// that nothing changes where some of them move to other memory.
class Hazards {
 public:
  Hazards() = default;
  /// One footprint a step, in order. May throw std::bad_alloc.
  explicit Hazards(std::vector<Footprint> footprints);

  /// As ai::dependencies. May throw std::bad_alloc.
  [[nodiscard]] std::vector<std::vector<int>> dependencies() const;
  /// Whether just the same steps would wait for each other with the footprints of `moved` (in
  /// ascending order of their steps) in place of theirs.
  [[nodiscard]] bool same_with(std::span<const Footprint> moved) const noexcept;
  /// Puts them in place. Precondition: same_with(moved).
  void replace(std::span<Footprint> moved) noexcept;

 private:
  [[nodiscard]] static std::size_t pair(std::size_t later, std::size_t earlier) noexcept {
    return later * (later - 1) / 2 + earlier;
  }

  std::vector<Footprint> footprints_;
  std::vector<bool> waits_;  // for each pair of steps
};

}  // namespace ai::detail
