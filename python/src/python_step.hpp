#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "ai/program.hpp"
#include "ai/status.hpp"

namespace ge_python {

namespace nb = nanobind;

/// A step that calls fn(stream: int, reads: list[Tensor], writes: list[Tensor]) on both targets. It
/// borrows `fn`: whoever runs it (capture, launch, enqueue, rebind, clone) holds that. The GIL is
/// taken for the call. An exception becomes a Status and is left with the thread's StepErrors.
[[nodiscard]] ai::UserStep python_step(std::string name, std::vector<ai::Tensor> reads,
                                       std::vector<ai::Tensor> writes, nb::handle fn);

/// For the length of one call of the library on this thread, in which steps may run: what they
/// raise. Made and destroyed with the GIL; they nest, as calls do.
class StepErrors {
 public:
  StepErrors() noexcept;
  ~StepErrors();
  StepErrors(const StepErrors&) = delete;
  StepErrors& operator=(const StepErrors&) = delete;

  /// Raises the exception of `status`, unless it is ok, with a step's as its __cause__. What is no
  /// Exception (KeyboardInterrupt, SystemExit) is raised itself.
  void check(const ai::Status& status) const {
    if (!status.ok()) [[unlikely]]
      raise(status);
  }

  /// Keeps `error` for the innermost call of this thread.
  static void keep(nb::object error) noexcept;

 private:
  [[noreturn]] void raise(const ai::Status& status) const;
  StepErrors* outer_;
  nb::object error_;
};

}  // namespace ge_python
