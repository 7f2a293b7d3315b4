#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "errors.hpp"
#include "network.hpp"
#include "row.hpp"

namespace bench {

/// One way to do a row, ready to be launched: everything is planned, tuned and captured. Errors are
/// thrown (Absent, Failed); the bench is a program, not a library.
class Contestant {
 public:
  virtual ~Contestant() = default;

  /// Enqueues one replay of the graph with one copy of the step.
  virtual void launch(cudaStream_t stream) = 0;
  /// The same with kManyCopies, one after the other. The first call makes that graph, which may
  /// take long.
  virtual void launch_many(cudaStream_t stream) = 0;

  /// Where its operands and results are.
  [[nodiscard]] virtual Network& network() = 0;
  [[nodiscard]] virtual int nodes() const = 0;  ///< of the graph with one copy
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  /// What was chosen, one entry a GEMM or task, joined by " | ".
  [[nodiscard]] virtual std::string variant() const = 0;
  /// Whether `z` of every layer with an activation holds Z after a launch with has_backward().
  [[nodiscard]] virtual bool writes_z() const = 0;
  /// How far its activation and that one's slope may be from the formula, beyond rounding.
  [[nodiscard]] virtual double activation_error() const { return 0; }
};

}  // namespace bench
