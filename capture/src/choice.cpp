#include "capture/choice.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <numeric>

#include "capture/enqueue.hpp"

namespace ai::detail {
namespace {

// Of a time, against another; what is closer may be noise.
constexpr double kClearlyQuicker = 0.97;

/// In table order, candidates named `preferred` first.
Result<Choice> take(const Task& task, const std::string& preferred = {}) {
  std::vector<std::size_t> order(task.candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return task.candidates[i].name == preferred; });
  Choice choice = undecided(task);
  Status failure(StatusCode::Unsupported, task.name + ": no candidate is trusted and applies");
  for (const std::size_t i : order) {
    const Candidate& candidate = task.candidates[i];
    Verdict& verdict = choice.verdicts[i];
    if (!candidate.applicable()) continue;
    if (!candidate.trusted) {
      verdict.remark = "not taken: only a measured check on scratch operands could vouch for it";
      continue;
    }
    Status status = prepare(candidate);
    if (status.ok()) {
      choice.candidate = static_cast<int>(i);
      return choice;
    }
    verdict.remark = "dropped: " + status.to_string();
    verdict.dropped = true;
    failure = std::move(status);
  }
  return failure;
}

}  // namespace

Choice undecided(const Task& task) {
  Choice choice;
  choice.verdicts.resize(task.candidates.size());
  for (std::size_t i = 0; i < task.candidates.size(); ++i) {
    if (task.candidates[i].applicable()) continue;
    choice.verdicts[i].remark = "does not apply: " + task.candidates[i].reason;
  }
  return choice;
}

Result<std::vector<Choice>> take_first(std::span<const LoweredTask> tasks) {
  std::vector<Choice> choices;
  for (const LoweredTask& lowered : tasks) {
    Result<Choice> choice = take(lowered.task);
    if (!choice) return choice.status();
    choices.push_back(std::move(*choice));
  }
  return choices;
}

Result<Choice> take_again(const Task& task, const std::string& preferred) {
  Result<Choice> choice = take(task, preferred);
  if (choice) choice->note = "taken anew, without measuring, when its operands moved";
  return choice;
}

Choice take_stored(const LoweredTask& lowered) {
  const std::vector<Candidate>& candidates = lowered.task.candidates;
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [](const Candidate& c) { return c.applicable(); });
  const auto index = static_cast<std::size_t>(found - candidates.begin());
  Choice choice = undecided(lowered.task);
  choice.candidate = static_cast<int>(index);
  choice.verdicts[index].time_us = lowered.stored->time_us;
  choice.verdicts[index].checked = true;
  choice.runner_up = lowered.stored->runner_up;
  choice.runner_up_us = lowered.stored->runner_up_us;
  return choice;
}

bool is_worth_a_check(const Choice& choice, std::size_t candidate) noexcept {
  const Verdict& mine = choice.verdicts[candidate];
  if (mine.dropped || mine.checked || mine.time_us < 0) return false;
  const Verdict& fallback = choice.verdicts.back();
  return fallback.time_us < 0 || mine.time_us < kClearlyQuicker * fallback.time_us;
}

bool fell_back(const Choice& choice) noexcept {
  const auto taken = static_cast<std::size_t>(choice.candidate);
  if (taken + 1 != choice.verdicts.size() && choice.verdicts[taken].time_us >= 0) return false;
  for (std::size_t i = 0; i < choice.verdicts.size(); ++i) {
    if (is_worth_a_check(choice, i)) return true;
  }
  return false;
}

std::optional<StoredChoice> to_store(const Task& task, const Choice& choice, double budget_s) {
  const auto chosen = static_cast<std::size_t>(choice.candidate);
  const Candidate& candidate = task.candidates[chosen];
  const Verdict& taken = choice.verdicts[chosen];
  if (candidate.recipe.empty() || taken.time_us < 0 || taken.unproven) return std::nullopt;
  StoredChoice stored;
  stored.candidate = {candidate.name, candidate.recipe};
  stored.time_us = taken.time_us;
  stored.applicable = static_cast<int>(applicable(task));
  stored.budget_s = choice.is_cut_short ? budget_s : 0;
  for (std::size_t i = 0; i < choice.verdicts.size(); ++i) {
    const Verdict& verdict = choice.verdicts[i];
    stored.timed += verdict.timed ? 1 : 0;
    if (i == chosen || !verdict.checked || verdict.time_us < 0) continue;
    if (!stored.runner_up.empty() && stored.runner_up_us <= verdict.time_us) continue;
    stored.runner_up = task.candidates[i].name;
    stored.runner_up_us = verdict.time_us;
  }
  return stored;
}

std::string note_on(const StoredChoice& stored, const std::string& path) {
  std::string note = "from the tuning file " + path + ": " + std::to_string(stored.timed) + " of " +
                     std::to_string(stored.applicable) + " candidates timed";
  if (stored.budget_s > 0) {
    char budget[48];
    std::snprintf(budget, sizeof budget, " before its %g s ran out", stored.budget_s);
    note += budget;
  }
  return note;
}

std::size_t count_timed(const Choice& choice) noexcept {
  return static_cast<std::size_t>(
      std::count_if(choice.verdicts.begin(), choice.verdicts.end(),
                    [](const Verdict& verdict) { return verdict.timed; }));
}

std::size_t applicable(const Task& task) noexcept {
  return static_cast<std::size_t>(std::count_if(task.candidates.begin(), task.candidates.end(),
                                                [](const Candidate& c) { return c.applicable(); }));
}

Status prepare(const Candidate& candidate) {
  for (const std::shared_ptr<Step>& step : candidate.steps) AI_RETURN_IF_ERROR(prepare(*step));
  return {};
}

std::vector<std::shared_ptr<Step>> chosen_steps(std::span<const LoweredTask> tasks,
                                                std::span<const Choice> choices) {
  std::vector<std::shared_ptr<Step>> steps;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto chosen = static_cast<std::size_t>(choices[i].candidate);
    const Candidate& candidate = tasks[i].task.candidates[chosen];
    steps.insert(steps.end(), candidate.steps.begin(), candidate.steps.end());
  }
  return steps;
}

}  // namespace ai::detail
