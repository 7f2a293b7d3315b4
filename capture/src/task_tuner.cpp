#include "capture/task_tuner.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ai::detail {
namespace {

constexpr std::size_t kFinalists = 3;
// At first sight a candidate is timed to within a few per cent, so the best is surely among so many
// and within so much of the quickest.
constexpr std::size_t kPromising = 16;
constexpr double kHopeless = 1.5;
// What launches outside a graph may add to a time.
constexpr double kLaunchesUs = 30;
// A check takes three runs of the fallback and three of the candidate, each with its transfers. For
// those that follow the first, and comparing, so many times the first is kept, and once what may
// be under way before, if that leaves enough of the time there is.
constexpr double kRunsOfCheck = 5.5;
constexpr double kMostForCheck = 0.6;
// What one check may take that does not end with the budget.
constexpr double kMostForLastCheck = 0.25;
// Of the rest, what looking at all candidates may take; timing the promising ones gets what is
// left.
constexpr double kLooking = 0.75;
// Of all the time, what it may take where an execution is long: each of the promising ones then
// takes long again.
constexpr double kLookingAtLong = 0.5;

constexpr char kRanOut[] = "the tuning budget of the program ran out";

}  // namespace

TaskTuner::TaskTuner(TuningBench& bench, const Task& task, Trial* trial, std::string why)
    : bench_(bench),
      task_(task),
      trial_(trial),
      why_not_(std::move(why)),
      choice_(undecided(task)),
      examiner_(bench.api, bench.stream, task, trial, choice_) {}

void TaskTuner::measure(double deadline, double checks_until, const Progress& progress) {
  if (trial_ == nullptr) {
    choice_.note = "nothing was measured: " + why_not_;
    return;
  }
  const double begin = bench_.now();
  const double most = kMostForCheck * (deadline - begin);
  look_at_fallback(deadline, progress);
  const double looked = bench_.now();
  if (!out_of(deadline)) examiner_.begin_reference();
  const double now = bench_.now();
  run_s_ = now - looked;
  const double kept = kRunsOfCheck * run_s_ + std::max(run_s_, measurement_s());
  const double timed = deadline - std::min(kept, most);
  double looking = now + kLooking * (timed - now);
  if (!promising_.empty() && best_us() > kLongUs) {
    looking = std::min(looking, begin + kLookingAtLong * (deadline - begin));
  }
  look_at_others(looking, progress);
  time_well(timed);
  check(deadline, checks_until, kMostForLastCheck * (deadline - begin));
  final_round(deadline);
  promising_.clear();
}

/// First, so that there is something that may be taken where time runs out.
void TaskTuner::look_at_fallback(double end, const Progress& progress) {
  const std::size_t last = task_.candidates.size() - 1;
  const Status filled = out_of(end) ? Status() : trial_->fill(TrialData::Plain);
  if (filled.ok()) return try_one(last, end, progress);
  examiner_.drop(last, filled);
}

/// Not where scratch holds anything: a step may wait for ever where its state is not what it left.
void TaskTuner::look_at_others(double end, const Progress& progress) {
  if (trial_->fill_failed()) return;
  for (std::size_t i = 0; i + 1 < task_.candidates.size(); ++i) {
    if (task_.candidates[i].applicable()) try_one(i, end, progress);
  }
}

void TaskTuner::try_one(std::size_t candidate, double end, const Progress& progress) {
  if (out_of(end)) return cut_short(candidate, std::string("not measured: ") + kRanOut);
  if (progress) progress(tried_);
  tried_ += 1;
  if (!examiner_.prepare(candidate)) return;
  Status status = look_at(candidate, end);
  if (!status.ok()) examiner_.drop(candidate, std::move(status));
  shorten_list();
}

/// Times it roughly, and keeps its chain if that looks promising.
Status TaskTuner::look_at(std::size_t candidate, double end) {
  const std::vector<std::shared_ptr<Step>>& steps = task_.candidates[candidate].steps;
  const double best = best_us();
  const double known = promising_.empty() ? 0 : best;
  const Result<double> rough = bench_.stopwatch.rough(steps, trial_->addresses(), known);
  AI_RETURN_IF_ERROR(rough.status());
  Verdict& mine = verdict(candidate);
  mine.time_us = *rough;
  mine.timed = true;
  mine.checked = examiner_.is_fallback(candidate);
  if (*rough > kHopeless * best + kLaunchesUs) {
    mine.remark = "at first; not timed further";
    return {};
  }
  Result<TimedChain> chain = bench_.stopwatch.chain(steps, trial_->addresses(), *rough);
  AI_RETURN_IF_ERROR(chain.status());
  if (bench_.warm_s > 0) {
    const double warm_end = bench_.now() + std::exchange(bench_.warm_s, 0) - *rough * 1e-6;
    AI_RETURN_IF_ERROR(bench_.stopwatch.warm(*chain, std::min(warm_end, end), bench_.now));
    if (chain->effort.copies > 1 && !out_of(end)) {
      const Result<double> warm = bench_.stopwatch.time(*chain);
      AI_RETURN_IF_ERROR(warm.status());
      chain->first_us = *warm;
    }
  }
  mine.time_us = chain->first_us;
  const auto slower = [&](const Timed& other) {
    return verdict(other.candidate).time_us > mine.time_us;
  };
  const auto place = std::find_if(promising_.begin(), promising_.end(), slower);
  promising_.insert(place, Timed{candidate, std::move(*chain)});
  return {};
}

/// Of the promising one that looked quickest.
double TaskTuner::best_us() const {
  return promising_.empty() ? std::numeric_limits<double>::infinity()
                            : choice_.verdicts[promising_.front().candidate].time_us;
}

/// What one measurement may take that is under way when the time for timing ends.
double TaskTuner::measurement_s() const {
  if (promising_.empty()) return 0;
  const Effort& effort = promising_.front().chain.effort;
  return effort.copies * (effort.replays > 1 ? effort.replays + 1 : 1) * best_us() * 1e-6;
}

/// The slowest go while there are too many or they are too slow.
void TaskTuner::shorten_list() {
  while (promising_.size() > 1) {
    const double best = verdict(promising_.front().candidate).time_us;
    Verdict& last = verdict(promising_.back().candidate);
    if (promising_.size() <= kPromising && last.time_us <= kHopeless * best) return;
    last.remark = "at first; not timed further";
    promising_.pop_back();
  }
}

void TaskTuner::time_well(double end) {
  for (const Timed& timed : promising_) {
    Status status = time(timed, end);
    if (!status.ok()) examiner_.drop(timed.candidate, std::move(status));
  }
  std::erase_if(promising_, [&](const Timed& timed) { return verdict(timed.candidate).dropped; });
}

Status TaskTuner::time(const Timed& timed, double end) {
  const Effort& effort = timed.chain.effort;
  const auto wanted = static_cast<std::size_t>(effort.repetitions);
  std::vector<double> times;
  if (effort.replays == 1) times.push_back(timed.chain.first_us);  // of long work: as good as any
  while (times.size() < wanted && !out_of(end)) {
    const Result<double> time = bench_.stopwatch.time(timed.chain);
    AI_RETURN_IF_ERROR(time.status());
    times.push_back(*time);
  }
  if (times.size() < wanted) {
    cut_short(timed.candidate, "timed " + std::to_string(std::max<std::size_t>(times.size(), 1)) +
                                   " of " + std::to_string(wanted) + " times: " + kRanOut);
  }
  if (!times.empty()) verdict(timed.candidate).time_us = median(std::move(times));
  return {};
}

/// The quickest, until there are enough for a final round or, beyond those that were timed well,
/// one that is right. Timing would be for nothing if that one were not found for want of time.
void TaskTuner::check(double end, double late_end, double last_check_s) {
  const double late_begin = std::max(bench_.now(), end);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < choice_.verdicts.size(); ++i) {
    if (verdict(i).time_us >= 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return verdict(a).time_us < verdict(b).time_us;
  });
  std::size_t right = 0;
  for (const std::size_t i : order) {
    const bool is_promising = std::any_of(promising_.begin(), promising_.end(),
                                          [&](const Timed& timed) { return timed.candidate == i; });
    if (right == kFinalists || (right > 0 && !is_promising)) break;
    bool is_late = false;
    const auto time_is_up = [&] {
      if (is_late || !out_of(end)) return false;
      is_late = right == 0 && may_be_late(i, late_end, last_check_s);
      return !is_late;
    };
    const Examiner::Fitness fitness = examiner_.examine(i, time_is_up);
    if (is_late) late_s_ = bench_.now() - late_begin;
    if (fitness == Examiner::Fitness::Fit) {
      right += 1;
      if (is_late && !verdict(i).unproven) {
        cut_short(i, "checked beyond its share of the tuning budget");
      }
    }
    if (fitness == Examiner::Fitness::OutOfTime) {
      cut_short(i, std::string("not checked: ") + kRanOut);
    }
  }
}

/// Whether its check may be ended though the time for checks is over. Once it may where it does not
/// end by `late_end`.
bool TaskTuner::may_be_late(std::size_t candidate, double late_end, double last_check_s) {
  if (!is_worth_a_check(choice_, candidate)) return false;
  const double takes_s = run_s_ * static_cast<double>(examiner_.runs_left(candidate));
  if (bench_.now() + takes_s <= late_end) return true;
  return takes_s <= last_check_s && !std::exchange(had_last_check_, true);
}

/// The best few once more, in turns, so that a drifting clock favours none.
void TaskTuner::final_round(double end) {
  std::erase_if(promising_, [&](const Timed& timed) { return !verdict(timed.candidate).checked; });
  std::stable_sort(promising_.begin(), promising_.end(), [&](const Timed& a, const Timed& b) {
    return verdict(a.candidate).time_us < verdict(b.candidate).time_us;
  });
  const std::size_t count = std::min(promising_.size(), kFinalists);
  if (count < 2 || out_of(end)) return;
  if (const Status filled = trial_->fill(TrialData::Plain); !filled.ok()) {
    (void)bench_.api.stream_synchronize(bench_.stream);
    (void)bench_.api.get_last_error();
    choice_.note = "the best were not compared once more: " + filled.to_string();
    return;
  }
  std::vector<std::vector<double>> times(count);
  for (int round = 0; round < promising_.front().chain.effort.final_repetitions; ++round) {
    std::vector<double> turn;
    while (turn.size() < count && !out_of(end)) {
      const Timed& next = promising_[turn.size()];
      Result<double> time = bench_.stopwatch.time(next.chain);
      if (!time) return examiner_.drop(next.candidate, time.status());
      turn.push_back(*time);
    }
    if (turn.size() < count) break;
    for (std::size_t i = 0; i < count; ++i) times[i].push_back(turn[i]);
  }
  for (std::size_t i = 0; i < count && !times[i].empty(); ++i) {
    verdict(promising_[i].candidate).time_us = median(times[i]);
    finalists_.push_back(promising_[i].candidate);
  }
}

void TaskTuner::cut_short(std::size_t candidate, const std::string& remark) {
  choice_.is_cut_short = true;
  std::string& mine = verdict(candidate).remark;
  if (!mine.empty()) mine += "; ";
  mine += remark;
}

void TaskTuner::leave_out(const Choice& before) {
  for (std::size_t i = 0; i < before.verdicts.size(); ++i) {
    if (before.verdicts[i].dropped) choice_.verdicts[i] = before.verdicts[i];
  }
}

int TaskTuner::quickest() const {
  int best = -1;
  for (std::size_t i = 0; i < choice_.verdicts.size(); ++i) {
    const Verdict& mine = choice_.verdicts[i];
    if (!mine.checked || mine.time_us < 0) continue;
    // Another's time is from before, when the clock may have been another.
    const bool is_finalist = std::find(finalists_.begin(), finalists_.end(), i) != finalists_.end();
    if (!finalists_.empty() && !is_finalist) continue;
    if (best < 0 || mine.time_us < choice_.verdicts[static_cast<std::size_t>(best)].time_us) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

Result<Choice> TaskTuner::decide() {
  int best = quickest();
  for (std::size_t i = 0; best < 0 && i < choice_.verdicts.size(); ++i) {
    const Candidate& candidate = task_.candidates[i];
    if (!candidate.applicable() || verdict(i).dropped) continue;
    if (!candidate.trusted && trial_ == nullptr) {
      verdict(i).remark = "not taken: it could not be checked, " + why_not_;
      continue;
    }
    const bool is_good = candidate.trusted
                             ? examiner_.prepare(i)
                             : examiner_.examine(i, [] { return false; }) == Examiner::Fitness::Fit;
    if (is_good) best = static_cast<int>(i);
  }
  if (best < 0) return examiner_.failure();
  choice_.candidate = best;
  return choice_;
}

}  // namespace ai::detail
