#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "capture/choice.hpp"
#include "capture/examiner.hpp"
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

/// Chooses the candidate of one task. Of the many that are hardly ever wrong and mostly slow, all
/// are run a few times, those that look quick are timed well, and only the quickest are checked:
/// that is what costs most. Nothing is taken unchecked for its time.
class TaskTuner {
 public:
  /// `trial` is null where nothing of this task can be run; `why` then says why.
  TaskTuner(TuningBench& bench, const Task& task, Trial* trial, std::string why);
  TaskTuner(const TaskTuner&) = delete;
  TaskTuner& operator=(const TaskTuner&) = delete;

  /// Sees how many candidates have been tried, before each.
  using Progress = std::function<void(std::size_t done)>;

  /// Times and checks candidates until the clock shows `deadline`; one execution that is under way
  /// then is waited for. Where by then nothing is known to be right but the fallback, though
  /// something else was timed clearly quicker, checks go on: those that should end by
  /// `checks_until` and, beyond that, one that should take a quarter of all the time at most.
  void measure(double deadline, double checks_until, const Progress& progress);
  /// How long checks went on beyond the deadline.
  [[nodiscard]] double late_s() const noexcept { return late_s_; }
  /// Leaves out what an earlier measurement of the task has dropped. Call before measure.
  void leave_out(const Choice& before);
  /// Whether some candidate was timed and checked.
  [[nodiscard]] bool has_winner() const { return quickest() >= 0; }
  /// Takes the quickest that was timed and checked, of those in the final round if there was one;
  /// where none was, the first in table order that
  /// applies and is trusted or passes its check, however long that takes. Prepares its steps.
  [[nodiscard]] Result<Choice> decide();

 private:
  struct Timed {
    std::size_t candidate;
    TimedChain chain;
  };

  [[nodiscard]] bool out_of(double end) const { return bench_.now() >= end; }
  [[nodiscard]] Verdict& verdict(std::size_t candidate) { return choice_.verdicts[candidate]; }
  void look_at_fallback(double end, const Progress& progress);
  void look_at_others(double end, const Progress& progress);
  void try_one(std::size_t candidate, double end, const Progress& progress);
  [[nodiscard]] Status look_at(std::size_t candidate, double end);
  [[nodiscard]] double best_us() const;
  [[nodiscard]] double measurement_s() const;
  void shorten_list();
  void time_well(double end);
  [[nodiscard]] Status time(const Timed& timed, double end);
  void check(double end, double late_end, double last_check_s);
  [[nodiscard]] bool may_be_late(std::size_t candidate, double late_end, double last_check_s);
  void final_round(double end);
  [[nodiscard]] int quickest() const;
  void cut_short(std::size_t candidate, const std::string& remark);

  TuningBench& bench_;
  const Task& task_;
  Trial* trial_;
  std::string why_not_;
  Choice choice_;
  Examiner examiner_;
  std::size_t tried_ = 0;
  double run_s_ = 0;  // what one run takes of those that a check is made of
  double late_s_ = 0;
  bool had_last_check_ = false;
  std::vector<Timed> promising_;        // by time, while measuring
  std::vector<std::size_t> finalists_;  // whose times are of one final round; none: there was none
};

}  // namespace ai::detail
