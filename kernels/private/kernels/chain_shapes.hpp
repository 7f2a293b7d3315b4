#pragma once

#include <vector>

#include "kernels/chain_source.hpp"

namespace ai::kernels::chain {

/// What shapes depend on.
struct Machine {
  Limits limits = {};
  int multiprocessors = 0;
  double clock_hz = 0;
  double l2_bytes_per_s = 0;  ///< to all multiprocessors together
};

/// The shapes that look quickest for `network` by an estimate, at most `count`, the best first:
/// what is worth compiling and timing. Empty where none can serve it. Those with a window are for
/// networks whose weights no shape has the registers for all at once.
[[nodiscard]] std::vector<Shape> shapes_for(const Network& network, const Machine& machine,
                                            std::size_t count);

/// Whether reason_against() has none on this machine, whose registers a block's threads share.
[[nodiscard]] bool fits(const Network& network, const Shape& shape, const Machine& machine);

/// Microseconds that the estimate gives: for the order of shapes, not for promises.
[[nodiscard]] double estimate_us(const Network& network, const Shape& shape,
                                 const Machine& machine);

}  // namespace ai::kernels::chain
