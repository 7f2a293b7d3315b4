#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/lowering.hpp"

namespace ai::detail {

/// What is known of one candidate after choosing.
struct Verdict {
  double time_us = -1.0;  ///< of one execution inside a graph; negative: not measured
  std::string remark;     ///< why it was left out or not measured; empty: nothing to say
  bool dropped = false;   ///< it failed, was wrong or beyond checking: never to be taken
  bool timed = false;     ///< it was run on the clock, be it once
  bool checked = false;   ///< it does what the fallback does, or is trusted where that failed
  bool unproven = false;  ///< the latter: good for this capture, not to be kept
};

/// Which candidate of a task was taken, and why not the others.
struct Choice {
  int candidate = -1;
  std::vector<Verdict> verdicts;  ///< one for each candidate
  std::string note;               ///< on the task as a whole; may be empty
  /// Of a choice that was recalled, what came next when it was measured; empty: nothing did.
  std::string runner_up = {};
  double runner_up_us = -1.0;
  bool is_cut_short = false;  ///< the budget ran out before every candidate was looked at
  double share_s = 0;         ///< of the budget, for measuring this
};

/// A choice with nothing known but which candidates do not apply.
[[nodiscard]] Choice undecided(const Task& task);

/// Takes, for each task, the first candidate that applies, is trusted and can be prepared. May
/// throw std::bad_alloc.
[[nodiscard]] Result<std::vector<Choice>> take_first(std::span<const LoweredTask> tasks);

/// The same for one task, but `preferred`, where a candidate of that name is as good, comes first.
[[nodiscard]] Result<Choice> take_again(const Task& task, const std::string& preferred);

/// Takes the one candidate that was recalled. Precondition: `lowered.stored`. Prepares nothing.
[[nodiscard]] Choice take_stored(const LoweredTask& lowered);

/// Whether `candidate` may be right, which nobody knows yet, and was timed clearly quicker than the
/// fallback, or the fallback was not timed.
[[nodiscard]] bool is_worth_a_check(const Choice& choice, std::size_t candidate) noexcept;

/// Whether the fallback was taken, or what was not timed, though there is one that is worth a
/// check. Precondition: some candidate was taken.
[[nodiscard]] bool fell_back(const Choice& choice) noexcept;

/// What is to be kept of a choice that there were `budget_s` for. Nothing where its
/// candidate was not timed, could not be compared with anything or cannot be recalled.
[[nodiscard]] std::optional<StoredChoice> to_store(const Task& task, const Choice& choice,
                                                   double budget_s);

/// On a choice that was taken from the file at `path`.
[[nodiscard]] std::string note_on(const StoredChoice& stored, const std::string& path);

/// How many candidates were run on the clock.
[[nodiscard]] std::size_t count_timed(const Choice& choice) noexcept;

/// How many candidates apply.
[[nodiscard]] std::size_t applicable(const Task& task) noexcept;

/// Calls prepare on each step; an exception becomes a Status. A failure names the step.
[[nodiscard]] Status prepare(const Candidate& candidate);

/// The chosen steps of all tasks, in order. May throw std::bad_alloc.
[[nodiscard]] std::vector<std::shared_ptr<Step>> chosen_steps(std::span<const LoweredTask> tasks,
                                                              std::span<const Choice> choices);

/// Executable::explain(). May throw std::bad_alloc.
[[nodiscard]] std::string explain(std::span<const LoweredTask> tasks,
                                  std::span<const Choice> choices);

/// Executable::dot(). May throw std::bad_alloc.
[[nodiscard]] std::string dot(std::span<const Node> nodes);

}  // namespace ai::detail
