#include "capture/task_tuner.hpp"

#include <algorithm>
#include <limits>

#include "cuda/error.hpp"

namespace ai::detail {
namespace {

constexpr std::size_t kFinalists = 3;
constexpr char kNotMeasured[] = "not measured: the tuning budget of the program ran out";

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

TaskTuner::TaskTuner(TuningBench& bench, const Task& task, Trial* trial, std::string why)
    : bench_(bench),
      task_(task),
      trial_(trial),
      why_not_(std::move(why)),
      choice_(undecided(task)),
      fit_(task.candidates.size(), false),
      compared_(task.candidates.size(), 0) {}

void TaskTuner::measure(double deadline) {
  if (trial_ == nullptr) {
    choice_.note = "nothing was measured: " + why_not_;
    return;
  }
  for (std::size_t i = 0; i < task_.candidates.size(); ++i) {
    if (!task_.candidates[i].applicable()) continue;
    const Fitness fitness = out_of(deadline) ? Fitness::OutOfTime : examine(i, deadline);
    if (fitness == Fitness::Unfit) continue;
    if (fitness == Fitness::OutOfTime || out_of(deadline)) {
      choice_.verdicts[i].remark = kNotMeasured;
      continue;
    }
    Status status = time(i, deadline);
    if (!status.ok()) drop(i, std::move(status));
  }
  final_round(deadline);
  measured_.clear();
}

/// Whether the candidate may be taken: it can be prepared and does what the fallback does, with
/// each kind of data. What has been found out by the deadline is kept for the next call.
TaskTuner::Fitness TaskTuner::examine(std::size_t candidate, double deadline) {
  if (choice_.verdicts[candidate].dropped) return Fitness::Unfit;
  if (fit_[candidate]) return Fitness::Fit;
  Status status = prepare(task_.candidates[candidate]);
  const bool is_fallback = candidate + 1 == task_.candidates.size();
  std::size_t& kind = compared_[candidate];
  while (status.ok() && !is_fallback && kind < std::size(kTrialData)) {
    if (fallback_failed_) return pass_unchecked(candidate);
    if (out_of(deadline)) return Fitness::OutOfTime;
    if (kind == reference_.size()) {
      extend_reference();
    } else if (status = compare(candidate, kind); status.ok()) {
      kind += 1;
    }
  }
  if (!status.ok()) {
    drop(candidate, std::move(status));
    return Fitness::Unfit;
  }
  fit_[candidate] = true;
  return Fitness::Fit;
}

/// What becomes of a candidate that there is nothing to compare with.
TaskTuner::Fitness TaskTuner::pass_unchecked(std::size_t candidate) {
  Verdict& verdict = choice_.verdicts[candidate];
  if (task_.candidates[candidate].trusted) {
    verdict.remark = "not checked: the fallback failed";
    fit_[candidate] = true;
    return Fitness::Fit;
  }
  verdict.remark = "not taken: it could not be checked, the fallback failed";
  verdict.dropped = true;
  return Fitness::Unfit;
}

Status TaskTuner::compare(std::size_t candidate, std::size_t kind) {
  Result<TrialOutputs> got = trial_->run(task_.candidates[candidate], kTrialData[kind]);
  if (!got) return got.status();
  std::string difference = trial_->difference(reference_[kind], *got);
  if (difference.empty()) return {};
  return {StatusCode::Invalid, "its results are wrong: " + std::move(difference)};
}

/// By what the fallback makes of the next kind of data. It is dropped where it fails.
void TaskTuner::extend_reference() {
  const Candidate& fallback = task_.candidates.back();
  Status status = prepare(fallback);
  if (status.ok()) {
    Result<TrialOutputs> made = trial_->run(fallback, kTrialData[reference_.size()]);
    if (made) return reference_.push_back(std::move(*made));
    status = made.status();
  }
  fallback_failed_ = true;
  drop(task_.candidates.size() - 1, std::move(status));
}

Status TaskTuner::time(std::size_t candidate, double deadline) {
  AI_RETURN_IF_ERROR(trial_->fill(TrialData::Plain));
  Result<TimedChain> chain =
      bench_.stopwatch.chain(task_.candidates[candidate].steps, trial_->addresses());
  if (!chain) return chain.status();
  const double warm_end = bench_.now() + bench_.warm_s - chain->rough_us * 1e-6;
  AI_RETURN_IF_ERROR(bench_.stopwatch.warm(*chain, std::min(warm_end, deadline), bench_.now));
  bench_.warm_s = 0;
  const auto wanted = static_cast<std::size_t>(chain->effort.repetitions);
  std::vector<double> times;
  while (times.size() < wanted && !out_of(deadline)) {
    Result<double> time = bench_.stopwatch.time(*chain);
    if (!time) return time.status();
    times.push_back(*time);
  }
  Verdict& verdict = choice_.verdicts[candidate];
  if (times.empty() && chain->effort.copies > 1) {
    verdict.remark = kNotMeasured;
    return {};
  }
  if (times.size() < wanted) {
    if (!verdict.remark.empty()) verdict.remark += "; ";
    verdict.remark += "timed " + std::to_string(std::max<std::size_t>(times.size(), 1)) + " of " +
                      std::to_string(wanted) + " times: the tuning budget of the program ran out";
  }
  verdict.time_us = times.empty() ? chain->rough_us : median(std::move(times));
  measured_.push_back({candidate, std::move(*chain)});
  return {};
}

/// The best few once more, in turns, so that a drifting clock favours none.
void TaskTuner::final_round(double deadline) {
  const auto time_of = [&](const Measured& m) { return choice_.verdicts[m.candidate].time_us; };
  std::stable_sort(measured_.begin(), measured_.end(),
                   [&](const Measured& a, const Measured& b) { return time_of(a) < time_of(b); });
  const std::size_t count = std::min(measured_.size(), kFinalists);
  if (count < 2) return;
  std::vector<std::vector<double>> times(count);
  for (int round = 0; round < measured_.front().chain.effort.final_repetitions; ++round) {
    std::vector<double> turn;
    while (turn.size() < count && !out_of(deadline)) {
      const Measured& next = measured_[turn.size()];
      Result<double> time = bench_.stopwatch.time(next.chain);
      if (!time) return drop(next.candidate, time.status());
      turn.push_back(*time);
    }
    if (turn.size() < count) break;
    for (std::size_t i = 0; i < count; ++i) times[i].push_back(turn[i]);
  }
  for (std::size_t i = 0; i < count && !times[i].empty(); ++i) {
    choice_.verdicts[measured_[i].candidate].time_us = median(times[i]);
  }
}

void TaskTuner::drop(std::size_t candidate, Status status) {
  // Nothing of it may still run on scratch that the next candidate, or nobody, will own.
  (void)bench_.api.stream_synchronize(bench_.stream);
  (void)bench_.api.get_last_error();
  Verdict& verdict = choice_.verdicts[candidate];
  verdict.dropped = true;
  verdict.time_us = -1;
  verdict.remark = "dropped: " + status.to_string();
  failure_ = std::move(status);
}

Result<Choice> TaskTuner::decide() {
  int best = -1;
  for (std::size_t i = 0; i < choice_.verdicts.size(); ++i) {
    const double time = choice_.verdicts[i].time_us;
    if (time < 0) continue;
    if (best < 0 || time < choice_.verdicts[static_cast<std::size_t>(best)].time_us) {
      best = static_cast<int>(i);
    }
  }
  for (std::size_t i = 0; best < 0 && i < choice_.verdicts.size(); ++i) {
    const Candidate& candidate = task_.candidates[i];
    if (!candidate.applicable() || choice_.verdicts[i].dropped) continue;
    if (!candidate.trusted && trial_ == nullptr) {
      choice_.verdicts[i].remark = "not taken: it could not be checked, " + why_not_;
      continue;
    }
    if (candidate.trusted) {
      Status status = prepare(candidate);
      if (!status.ok()) {
        drop(i, std::move(status));
        continue;
      }
    } else if (examine(i, std::numeric_limits<double>::infinity()) != Fitness::Fit) {
      continue;
    }
    best = static_cast<int>(i);
  }
  if (best < 0) return failure_;
  choice_.candidate = best;
  return choice_;
}

}  // namespace ai::detail
