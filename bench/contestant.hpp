#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "network.hpp"
#include "row.hpp"

namespace bench {

/// What a contestant says when it cannot take part in a row.
struct Absent : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Anything else that went wrong; `check` and its like throw it with the failing call.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One way to do a row, ready to be launched: everything is planned, tuned and captured. Errors are
/// thrown (Absent, Failed); the bench is a program, not a library.
class Contestant {
 public:
  virtual ~Contestant() = default;

  /// Enqueues one replay of the graph with one copy of the step, or of that with kManyCopies.
  virtual void launch(cudaStream_t stream) = 0;
  virtual void launch_many(cudaStream_t stream) = 0;

  /// Where its operands and results are.
  [[nodiscard]] virtual Network& network() = 0;
  [[nodiscard]] virtual int nodes() const = 0;  ///< of the graph with one copy
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  /// What was chosen, one entry a GEMM or task, joined by " | ".
  [[nodiscard]] virtual std::string variant() const = 0;
  /// Whether `z` of layers with an activation holds Z after a launch with has_backward().
  [[nodiscard]] virtual bool writes_z() const = 0;
};

}  // namespace bench
