#pragma once

#include <cstddef>
#include <functional>
#include <limits>
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
  /// Makes this candidate again for the same problem, also in another process, without a search
  /// (Recall). Empty: it has to be searched for. Printable ASCII.
  std::string recipe = {};

  [[nodiscard]] bool applicable() const noexcept { return reason.empty(); }
};

/// One independent choice: every candidate reads and writes the same operands and yields the same
/// values up to rounding. Candidates stand in table order: the first applicable one is taken when
/// nothing is measured; the last one is the fallback, always applicable and trusted.
struct Task {
  std::string name;  ///< e.g. "forward Y[64,256] K=64", "backward gA[64,256]"
  std::vector<Candidate> candidates;
  /// Its one applicable candidate was made from what was recalled; others were not searched for.
  bool recalled = false;
  std::size_t queries = 0;   ///< how often a library was searched for candidates
  std::size_t compiled = 0;  ///< kernels that were compiled for it
  double compile_s = 0;      ///< what each took, added up
};

/// Forward plans that one kernel may carry out: the A of each is the Y of the one before it.
struct PlanRun {
  std::vector<GemmPlan> plans;
  /// For each of them whether its Y is to be written; if not, its memory is left as it is. The last
  /// one's always is, and so is every Z.
  std::vector<bool> keeps_y;
};

/// For Backend::fuse.
struct FuseOptions {
  std::size_t most = 8;            ///< candidates that a run may get
  std::string kernel_folder = {};  ///< where compiled kernels are kept for later; empty: nowhere
  bool cooperative = true;         ///< whether kernels may need all their blocks to run at once
  /// Told why the folder, or a file in it, cannot be used: once in a call, as nothing fails for it.
  std::function<void(const Status&)> on_problem = {};
};

/// A candidate that was found best earlier.
struct RecalledCandidate {
  std::string name = {};    ///< Candidate::name
  std::string recipe = {};  ///< Candidate::recipe
  bool operator==(const RecalledCandidate&) const = default;
};

/// What was found best for the `task`-th task of a run, by its position among the run's tasks; null
/// where nothing is known. Asked only where there is something to choose. The pointer is valid
/// until the next call.
using Recall = std::function<const RecalledCandidate*(std::size_t task)>;

/// What turns validated plans into steps for one target. The only thing that capture knows of
/// kernels. Not thread-safe; cheap to make.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The tasks that carry out `run` (at present one plan), in an order that respects their
  /// data flow. May allocate, load libraries and query the device; touches no operand. A task that
  /// `recall` knows a usable candidate for gets that one alone, without a search.
  [[nodiscard]] Result<std::vector<Task>> lower(std::span<const GemmPlan> run,
                                                const Recall& recall = {}) {
    return lower_run(run, recall);
  }

  /// Whether `plan` may be among those that are fused.
  [[nodiscard]] virtual bool can_fuse(const GemmPlan& /*plan*/) const { return true; }
  /// Whether one that follows no other may be worth it too, since a step of its own is not enough
  /// for it.
  [[nodiscard]] virtual bool can_fuse_alone(const GemmPlan& /*plan*/) const { return false; }
  /// How many plans may be fused.
  [[nodiscard]] virtual std::size_t most_fused() const noexcept {
    return std::numeric_limits<std::size_t>::max();
  }

  /// A task for each of `runs`, to be carried out as a whole by any of its candidates. There is no
  /// fallback: where none applies, each says why, and the plans are lowered one by one. May do what
  /// lower does, and compile. `recall` is asked by a run's position among `runs`.
  [[nodiscard]] Result<std::vector<Task>> fuse(std::span<const PlanRun> runs,
                                               const FuseOptions& options,
                                               const Recall& recall = {}) {
    return fuse_runs(runs, options, recall);
  }

  /// What candidates come from, with versions, e.g. "cuBLASLt 13.1.0, kernels 1": what was measured
  /// with one set need not hold with another. May load libraries; one that is missing is no error.
  [[nodiscard]] virtual Result<std::string> libraries() { return std::string(); }

 private:
  [[nodiscard]] virtual Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                                            const Recall& recall) = 0;
  [[nodiscard]] virtual Result<std::vector<Task>> fuse_runs(std::span<const PlanRun> runs,
                                                            const FuseOptions& /*options*/,
                                                            const Recall& /*recall*/) {
    return std::vector<Task>(runs.size());
  }
};

/// Plain loops on Device::CPU tensors with f64 accumulation: the reference, and the way to run a
/// program without a GPU. One candidate a task. Never null.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend();

}  // namespace ai
