#pragma once

#include <string>
#include <vector>

#include "kernels/chain_source.hpp"
#include "kernels/launch.hpp"

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

/// Why a shape cannot serve a network; empty where it can, as far as can be known before it is
/// compiled. A block's threads share the registers of a multiprocessor.
[[nodiscard]] std::string reason_against(const Network& network, const Shape& shape,
                                         const Machine& machine);
/// The same within limits that are those of each thread and block.
[[nodiscard]] std::string reason_against(const Network& network, const Shape& shape,
                                         const Limits& limits);

/// Microseconds that the estimate gives: for the order of shapes, not for promises.
[[nodiscard]] double estimate_us(const Network& network, const Shape& shape,
                                 const Machine& machine);

[[nodiscard]] LaunchShape launch_shape(const Network& network, const Shape& shape) noexcept;

/// "{2, 8, 256, 1, false, 0}". May throw std::bad_alloc.
[[nodiscard]] std::string initializer_of(const Shape& shape);

}  // namespace ai::kernels::chain
