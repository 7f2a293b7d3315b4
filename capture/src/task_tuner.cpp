#include "capture/task_tuner.hpp"

#include <algorithm>

#include "cuda/error.hpp"

namespace ai::detail {
namespace {

constexpr int kRepetitions = 5;
constexpr int kFinalRepetitions = 15;
constexpr std::size_t kFinalists = 3;

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
      passed_(task.candidates.size(), false) {}

void TaskTuner::measure(double deadline) {
  if (trial_ == nullptr) {
    choice_.note = "nothing was measured: " + why_not_;
    return;
  }
  for (std::size_t i = 0; i < task_.candidates.size(); ++i) {
    if (!task_.candidates[i].applicable()) continue;
    if (bench_.now() >= deadline) {
      choice_.verdicts[i].remark = "not measured: the tuning budget of the program ran out";
      continue;
    }
    if (!checked(i)) continue;
    Status status = time(i);
    if (!status.ok()) drop(i, std::move(status));
  }
  final_round(deadline);
  measured_.clear();
}

/// Whether the candidate is prepared and fit to be taken.
bool TaskTuner::checked(std::size_t candidate) {
  if (choice_.verdicts[candidate].dropped) return false;
  if (passed_[candidate]) return true;
  Status status = prepare(task_.candidates[candidate]);
  if (status.ok()) status = check(candidate);
  if (!status.ok()) {
    drop(candidate, std::move(status));
    return false;
  }
  passed_[candidate] = true;
  return true;
}

/// Against the fallback, once for each kind of data.
Status TaskTuner::check(std::size_t candidate) {
  if (candidate + 1 == task_.candidates.size()) return {};
  AI_RETURN_IF_ERROR(refer());
  for (std::size_t d = 0; d < std::size(kTrialData); ++d) {
    Result<TrialOutputs> got = trial_->run(task_.candidates[candidate], kTrialData[d]);
    if (!got) return got.status();
    std::string difference = trial_->difference((*reference_)[d], *got);
    if (!difference.empty()) {
      return {StatusCode::Invalid, "its results are wrong: " + std::move(difference)};
    }
  }
  return {};
}

/// What the fallback makes of each kind of data.
Status TaskTuner::refer() {
  if (reference_.has_value()) return {};
  const Candidate& fallback = task_.candidates.back();
  AI_RETURN_IF_ERROR(prepare(fallback));
  std::array<TrialOutputs, std::size(kTrialData)> outputs;
  for (std::size_t d = 0; d < std::size(kTrialData); ++d) {
    Result<TrialOutputs> made = trial_->run(fallback, kTrialData[d]);
    if (!made) return made.status();
    outputs[d] = std::move(*made);
  }
  reference_ = std::move(outputs);
  return {};
}

Status TaskTuner::time(std::size_t candidate) {
  AI_RETURN_IF_ERROR(trial_->fill(TrialData::Plain));
  Result<TimedChain> chain =
      bench_.stopwatch.chain(task_.candidates[candidate].steps, trial_->addresses());
  if (!chain) return chain.status();
  AI_RETURN_IF_ERROR(bench_.stopwatch.warm(*chain, bench_.warm_s, bench_.now));
  bench_.warm_s = 0;
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    Result<double> time = bench_.stopwatch.time(*chain);
    if (!time) return time.status();
    times.push_back(*time);
  }
  choice_.verdicts[candidate].time_us = median(times);
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
  for (int round = 0; round < kFinalRepetitions && bench_.now() < deadline; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      Result<double> time = bench_.stopwatch.time(measured_[i].chain);
      if (!time) return drop(measured_[i].candidate, time.status());
      times[i].push_back(*time);
    }
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
    } else if (!checked(i)) {
      continue;
    }
    best = static_cast<int>(i);
  }
  if (best < 0) return failure_;
  choice_.candidate = best;
  return choice_;
}

}  // namespace ai::detail
