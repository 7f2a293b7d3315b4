#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ai/gemm.hpp"
#include "ai/status.hpp"
#include "ai/step.hpp"

namespace ai {

/// One way to do a Task, or the reason why this way is not open.
struct Candidate {
  std::string name;    ///< family and variant, e.g. "lt_fused/3"
  std::string reason;  ///< empty: applicable; else why not, and `steps` is empty
  /// A candidate that is not trusted must pass a check against the task's trusted fallback on
  /// scratch operands (NaN and Inf among them) before it may be chosen.
  bool trusted = true;
  std::vector<std::shared_ptr<Step>> steps;

  [[nodiscard]] bool applicable() const noexcept { return reason.empty(); }
};

/// One independent choice: every candidate reads and writes the same operands and yields the same
/// values up to rounding. Candidates stand in table order: the first applicable one is taken when
/// nothing is measured; the last one is the fallback, always applicable and trusted.
struct Task {
  std::string name;  ///< e.g. "forward Y[64,256] K=64", "backward gA[64,256]"
  std::vector<Candidate> candidates;
};

/// What turns validated plans into steps for one target. The only thing that capture knows of
/// kernels. Not thread-safe; cheap to make.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The tasks that carry out `run` (at present one plan), in an order that respects their
  /// data flow. May allocate, load libraries and query the device; touches no operand.
  [[nodiscard]] virtual Result<std::vector<Task>> lower(std::span<const GemmPlan> run) = 0;
};

/// Plain loops on Device::CPU tensors with f64 accumulation: the reference, and the way to run a
/// program without a GPU. One candidate a task. Never null.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend();

}  // namespace ai
