#pragma once

#include <functional>
#include <optional>

#include "check.hpp"
#include "row.hpp"

namespace bench {

/// Whether one contestant's graph with kManyCopies computes what its graph with one does, found out
/// once. In TrainStep it is taken on trust: each copy begins with other weights.
class LongGraphCheck {
 public:
  /// `run` overwrites the results, launches the long graph once, and checks what a single step is
  /// to give. Throws Failed where something is wrong, every time.
  void demand(Mode mode, const std::function<Checked()>& run);

 private:
  std::optional<Checked> checked_;
};

}  // namespace bench
