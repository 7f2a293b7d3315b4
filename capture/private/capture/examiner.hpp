#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <vector>

#include "capture/choice.hpp"
#include "capture/trial.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// Prepares the candidates of one task and holds them against its fallback, each at most once, and
/// notes in `choice` what comes of it. May throw std::bad_alloc.
class Examiner {
 public:
  enum class Fitness { Fit, Unfit, OutOfTime };

  /// All outlive this. `trial` may be null where nothing is examined.
  Examiner(const cuda::Api& api, cudaStream_t stream, const Task& task, Trial* trial,
           Choice& choice);

  /// False, and dropped, where it cannot be.
  [[nodiscard]] bool prepare(std::size_t candidate);
  /// Runs the fallback on the first kind of data, which the next check then need not.
  void begin_reference() {
    if (reference_.empty() && !fallback_failed_) extend_reference();
  }
  /// Whether the candidate may be taken: it can be prepared and does what the fallback does, with
  /// each kind of data. What has been found out when time is up is kept for the next call.
  [[nodiscard]] Fitness examine(std::size_t candidate, const std::function<bool()>& time_is_up);
  /// How many runs, of the fallback and of `candidate`, examine would make yet.
  [[nodiscard]] std::size_t runs_left(std::size_t candidate) const noexcept {
    return 2 * std::size(kTrialData) - reference_.size() - compared_[candidate];
  }
  /// Never to be taken, because of `status`. Waits for whatever of it is still running.
  void drop(std::size_t candidate, Status status);

  [[nodiscard]] bool is_fallback(std::size_t candidate) const noexcept {
    return candidate + 1 == task_.candidates.size();
  }
  /// Of the last candidate that was dropped.
  [[nodiscard]] const Status& failure() const noexcept { return failure_; }

 private:
  [[nodiscard]] Fitness pass_unchecked(std::size_t candidate);
  [[nodiscard]] Status compare(std::size_t candidate, std::size_t kind);
  void extend_reference();

  const cuda::Api& api_;
  cudaStream_t stream_;
  const Task& task_;
  Trial* trial_;
  Choice& choice_;
  Status failure_;
  std::vector<bool> prepared_;
  std::vector<std::size_t> compared_;    // for each candidate: on how many kinds of data
  std::vector<TrialOutputs> reference_;  // what the fallback makes of the first kinds of data
  bool fallback_failed_ = false;         // there will be no more of these
};

}  // namespace ai::detail
