#pragma once

#include <stdexcept>

namespace bench {

/// What a contestant says when it cannot take part in a row.
struct Absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Anything else that went wrong; `check` and its like throw it with the failing call.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace bench
