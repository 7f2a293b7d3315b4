#pragma once

#include <array>
#include <functional>
#include <optional>
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

  /// Checks and times candidates in table order until the clock shows `deadline`.
  void measure(double deadline);
  /// Takes the quickest that was measured; where none was, the first in table order that applies
  /// and is trusted or passes its check. Prepares its steps.
  [[nodiscard]] Result<Choice> decide();

 private:
  struct Measured {
    std::size_t candidate;
    TimedChain chain;
  };

  [[nodiscard]] bool checked(std::size_t candidate);
  [[nodiscard]] Status check(std::size_t candidate);
  [[nodiscard]] Status refer();
  [[nodiscard]] Status time(std::size_t candidate);
  void final_round(double deadline);
  void drop(std::size_t candidate, Status status);

  TuningBench& bench_;
  const Task& task_;
  Trial* trial_;
  std::string why_not_;
  Choice choice_;
  Status failure_;  // of the last candidate that was dropped
  std::vector<bool> passed_;
  std::optional<std::array<TrialOutputs, std::size(kTrialData)>> reference_;
  std::vector<Measured> measured_;
};

}  // namespace ai::detail
