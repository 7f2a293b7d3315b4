#include "capture/examiner.hpp"

#include <iterator>
#include <utility>

namespace ai::detail {

Examiner::Examiner(const cuda::Api& api, cudaStream_t stream, const Task& task, Trial* trial,
                   Choice& choice)
    : api_(api),
      stream_(stream),
      task_(task),
      trial_(trial),
      choice_(choice),
      prepared_(task.candidates.size(), false),
      compared_(task.candidates.size(), 0) {}

bool Examiner::prepare(std::size_t candidate) {
  if (choice_.verdicts[candidate].dropped) return false;
  if (prepared_[candidate]) return true;
  Status status = detail::prepare(task_.candidates[candidate]);
  prepared_[candidate] = status.ok();
  if (!status.ok()) drop(candidate, std::move(status));
  return prepared_[candidate];
}

Examiner::Fitness Examiner::examine(std::size_t candidate,
                                    const std::function<bool()>& time_is_up) {
  if (!prepare(candidate)) return Fitness::Unfit;
  if (choice_.verdicts[candidate].checked) return Fitness::Fit;
  std::size_t& kind = compared_[candidate];
  while (!is_fallback(candidate) && kind < std::size(kTrialData)) {
    if (fallback_failed_) return pass_unchecked(candidate);
    if (time_is_up()) return Fitness::OutOfTime;
    if (kind == reference_.size()) {
      extend_reference();
      continue;
    }
    if (Status status = compare(candidate, kind); !status.ok()) {
      drop(candidate, std::move(status));
      return Fitness::Unfit;
    }
    kind += 1;
  }
  choice_.verdicts[candidate].checked = true;
  return Fitness::Fit;
}

/// What becomes of a candidate that there is nothing to compare with.
Examiner::Fitness Examiner::pass_unchecked(std::size_t candidate) {
  Verdict& verdict = choice_.verdicts[candidate];
  if (task_.candidates[candidate].trusted) {
    verdict.remark = "not checked: the fallback failed";
    verdict.checked = true;
    verdict.unproven = true;
    return Fitness::Fit;
  }
  verdict.remark = "not taken: it could not be checked, the fallback failed";
  verdict.time_us = -1;
  verdict.dropped = true;
  return Fitness::Unfit;
}

Status Examiner::compare(std::size_t candidate, std::size_t kind) {
  Result<TrialOutputs> got = trial_->run(task_.candidates[candidate], kTrialData[kind]);
  if (!got) return got.status();
  std::string difference = trial_->difference(reference_[kind], *got);
  if (difference.empty()) return {};
  return {StatusCode::Invalid, "its results are wrong: " + std::move(difference)};
}

/// By what the fallback makes of the next kind of data. It is dropped where it fails. One that
/// could not be timed may still vouch for others.
void Examiner::extend_reference() {
  const std::size_t last = task_.candidates.size() - 1;
  if (prepared_[last] || prepare(last)) {
    Result<TrialOutputs> made = trial_->run(task_.candidates[last], kTrialData[reference_.size()]);
    if (made) return reference_.push_back(std::move(*made));
    drop(last, made.status());
  }
  fallback_failed_ = true;
}

void Examiner::drop(std::size_t candidate, Status status) {
  // Nothing of it may still run on scratch that the next candidate, or nobody, will own.
  (void)api_.stream_synchronize(stream_);
  (void)api_.get_last_error();
  Verdict& verdict = choice_.verdicts[candidate];
  verdict.dropped = true;
  verdict.checked = false;
  verdict.time_us = -1;
  verdict.remark = "dropped: " + status.to_string();
  failure_ = std::move(status);
}

}  // namespace ai::detail
