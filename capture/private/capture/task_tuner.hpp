#pragma once

#include <functional>
#include <span>
#include <vector>

#include "capture/choice.hpp"
#include "capture/stopwatch.hpp"
#include "capture/trial.hpp"

namespace ai::detail {

/// The device side of tuning, shared by all tasks of a program.
struct TuningBench {
  const cuda::Api& api;
  cudaStream_t stream = nullptr;
  Stopwatch& stopwatch;
  std::function<double()> now;
  double warm_s = 0;  ///< of keeping the GPU busy before the next measurement
};

/// Chooses the candidate of one task.
class TaskTuner {
 public:
  /// `trial` is null where nothing of this task can be run; `why` then says why.
  TaskTuner(TuningBench& bench, const Task& task, Trial* trial, std::string why);

  /// Checks and times candidates in table order until the clock shows `deadline`; one execution
  /// that is under way then is waited for.
  void measure(double deadline);
  /// Takes the quickest that was measured; where none was, the first in table order that applies
  /// and is trusted or passes its check, however long that takes. Prepares its steps.
  [[nodiscard]] Result<Choice> decide();

 private:
  struct Measured {
    std::size_t candidate;
    TimedChain chain;
  };

  enum class Fitness { Fit, Unfit, OutOfTime };

  [[nodiscard]] bool out_of(double deadline) const { return bench_.now() >= deadline; }
  [[nodiscard]] Fitness examine(std::size_t candidate, double deadline);
  [[nodiscard]] Fitness pass_unchecked(std::size_t candidate);
  [[nodiscard]] Status compare(std::size_t candidate, std::size_t kind);
  void extend_reference();
  [[nodiscard]] Status time(std::size_t candidate, double deadline);
  void final_round(double deadline);
  void drop(std::size_t candidate, Status status);

  TuningBench& bench_;
  const Task& task_;
  Trial* trial_;
  std::string why_not_;
  Choice choice_;
  Status failure_;  // of the last candidate that was dropped
  std::vector<bool> fit_;
  std::vector<std::size_t> compared_;    // for each candidate: on how many kinds of data
  std::vector<TrialOutputs> reference_;  // what the fallback makes of the first kinds of data
  bool fallback_failed_ = false;         // there will be no more of these
  std::vector<Measured> measured_;
};

}  // namespace ai::detail
