#pragma once

#include <cstdint>
#include <string>

#include "host_network.hpp"

namespace bench {

/// What a check of one step came to.
struct Checked {
  /// The largest |error| / bound of the elements checked; infinite where one is not finite or was
  /// never written, or where an input was changed. At most 1 where all is well.
  double error_ratio = 0;
  std::int64_t count = 0;  ///< elements checked
  std::string worst;       ///< where that was, what was there and what was expected
  [[nodiscard]] bool good() const { return error_ratio <= 1; }
};

/// Holds what one step of `after.row` made of HostNetwork(after.row) against sums in f64. Every
/// matrix is expected from what the contestant itself wrote for the matrices it is made of, so that
/// errors do not add up; those with more than 2^16 elements are checked at 4096 hashed places.
///
/// y is checked of every layer. With a backward: gw and gb of every layer; gy and gz of each layer
/// where they were written, and one of them must be; z of the layers with an activation where it
/// was written, and everywhere with `needs_z`. act' comes from the z that was written, without one
/// from z in f64 (ReLU's from the sign of y).
/// With TrainStep: w and b after the update.
///
/// The bound of a sum of L terms is (2 sqrt(L) + 8) 2^-24 sum|terms|, then through act, whose value
/// and slope may be off by `activation_error` more.
[[nodiscard]] Checked check_network(const HostNetwork& after, bool needs_z,
                                    double activation_error = 0);

}  // namespace bench
