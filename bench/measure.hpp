#pragma once

#include <cuda_runtime_api.h>

#include <string_view>
#include <vector>

#include "contestant.hpp"

namespace bench {

/// What can be measured of a contestant, in microseconds a step.
enum class What {
  Device,  ///< launches back to back, between two events
  Slope,   ///< (t(kManyCopies copies) - t(1 copy)) / (kManyCopies - 1), each as Device
  Host,    ///< from before the launch until the host knows that it is over, spinning
  Launch,  ///< the launch call alone, with a short queue
};
/// "device", "slope", "host", "launch"; throws Failed otherwise.
[[nodiscard]] What parse_what(std::string_view name);

/// Samples taken within about `seconds`, at least three (Slope too). Host: one a round trip. The
/// device is quiet before and after.
[[nodiscard]] std::vector<double> measure(Contestant& contestant, What what, double seconds,
                                          cudaStream_t stream);

}  // namespace bench
