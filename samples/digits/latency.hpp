#pragma once

#include <functional>

#include "ai/status.hpp"

namespace digits {

/// Host-observed durations in microseconds.
struct Percentiles {
  double p50 = 0.0;
  double p99 = 0.0;
  double p999 = 0.0;
};

/// Times `action` (start to finish, its wait included) `count` times after `count / 10` untimed
/// ones.
[[nodiscard]] ai::Result<Percentiles> measure(const std::function<ai::Status()>& action,
                                              int count = 5000);

}  // namespace digits
