#pragma once

#include "held.hpp"
#include "retired.hpp"

namespace ge_python {

/// What an ai::Executable holds for a wrapper. While the wrapper lives, the references are the
/// wrapper's own, so that the cycle collector sees them; here they come when it goes, and stay
/// until the last launch is over. The end may come on any thread: it takes the GIL, or, where
/// Python is no more, leaves the objects alone.
class LastHold {
 public:
  LastHold() noexcept = default;
  ~LastHold();
  LastHold(const LastHold&) = delete;
  LastHold& operator=(const LastHold&) = delete;

  /// Needs the GIL.
  void take(Held held, Retired retired) noexcept;

 private:
  Held held_;
  Retired retired_{-1};
};

}  // namespace ge_python
