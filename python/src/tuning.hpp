#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "ai/capture.hpp"

namespace ge_python {

namespace nb = nanobind;

[[nodiscard]] ai::Tuning tuning_of(nb::handle object);

/// What Python hears of tuning during one capture: calls its handlers, with the GIL, from a capture
/// that runs without it. Made and destroyed with the GIL, and outlives the capture.
class TuningEvents {
 public:
  /// None: progress is not told, and warnings become Python's RuntimeWarning. TypeError where a
  /// handler cannot be called.
  TuningEvents(nb::handle on_progress, nb::handle on_warning);
  TuningEvents(const TuningEvents&) = delete;
  TuningEvents& operator=(const TuningEvents&) = delete;

  /// Adds the handlers to `options`, which must not outlive this object.
  void listen(ai::CaptureOptions& options);
  /// Raises the first exception of a handler, after which none was called; then warns of what no
  /// handler has heard, which raises where warnings are errors.
  void finish();

 private:
  template <typename Call>
  void guarded(const Call& call) noexcept;
  void tell(const ai::TuningProgress& progress);
  void tell(const ai::Status& warning);

  nb::object on_progress_;
  nb::object on_warning_;
  std::vector<std::string> unheard_;
  std::optional<nb::python_error> error_;
};

}  // namespace ge_python
