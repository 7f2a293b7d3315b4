#include "capture/swaps.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace ai::detail {
namespace {

// How far behind the best a candidate may be that is tried in its place.
constexpr double kClose = 1.15;

/// Of what was timed and checked the best but one, if it came close.
std::optional<std::size_t> runner_up(const Choice& choice) {
  const auto chosen = static_cast<std::size_t>(choice.candidate);
  if (choice.verdicts[chosen].time_us < 0) return std::nullopt;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < choice.verdicts.size(); ++i) {
    const Verdict& verdict = choice.verdicts[i];
    if (i == chosen || !verdict.checked || verdict.dropped || verdict.time_us < 0) continue;
    if (verdict.time_us > kClose * choice.verdicts[chosen].time_us) continue;
    if (!best || verdict.time_us < choice.verdicts[*best].time_us) best = i;
  }
  return best;
}

class Finder {
 public:
  Finder(Selection& selection, const std::vector<bool>& repeats, const LowerAgain& lower)
      : selection_(selection), repeats_(repeats), lower_(lower) {}

  std::optional<Swap> find(std::size_t first) {
    const LoweredTask& task = selection_.tasks[first];
    if (task.fixed || task.stored || repeats_[first]) return std::nullopt;
    const std::optional<std::size_t> other = runner_up(selection_.choices[first]);
    if (!other) return std::nullopt;
    Swap swap;
    swap.picks.push_back({first, *other});
    bool is_whole = true;
    for (std::size_t i = first + 1; i < selection_.tasks.size() && is_whole; ++i) {
      if (!repeats_[i] || selection_.tasks[i].problem != task.problem) continue;
      const std::optional<Swap::Pick> pick = for_repeat(i, first, *other);
      is_whole = pick.has_value();
      if (is_whole) swap.picks.push_back(*pick);
    }
    if (is_whole) return swap;
    settle_swaps({swap}, selection_);
    return std::nullopt;
  }

 private:
  /// The candidate for a task that repeats the first, prepared.
  std::optional<Swap::Pick> for_repeat(std::size_t repeat, std::size_t first, std::size_t other) {
    const Candidate& wanted = selection_.tasks[first].task.candidates[other];
    std::vector<Candidate>& mine = selection_.tasks[repeat].task.candidates;
    const auto present = std::find_if(mine.begin(), mine.end(), [&](const Candidate& candidate) {
      return candidate.name == wanted.name && candidate.applicable();
    });
    if (present != mine.end()) {
      if (!prepare(*present).ok()) return std::nullopt;
      return Swap::Pick{repeat, static_cast<std::size_t>(present - mine.begin())};
    }
    std::optional<Candidate> made = make_again(repeat, wanted);
    if (!made) return std::nullopt;
    mine.push_back(std::move(*made));
    const Verdict& verdict = selection_.choices[first].verdicts[other];
    Verdict& copied = selection_.choices[repeat].verdicts.emplace_back();
    copied.time_us = verdict.time_us;
    copied.checked = true;
    return Swap::Pick{repeat, mine.size() - 1, true};
  }

  std::optional<Candidate> make_again(std::size_t repeat, const Candidate& wanted) const {
    if (wanted.recipe.empty()) return std::nullopt;
    const LoweredTask& mine = selection_.tasks[repeat];
    StoredChoice known;
    known.candidate = {wanted.name, wanted.recipe};
    const Result<std::vector<LoweredTask>> tasks = lower_(
        mine.item,
        [&](const std::string& problem) { return problem == mine.problem ? &known : nullptr; });
    if (!tasks) return std::nullopt;
    for (const LoweredTask& task : *tasks) {
      if (task.problem != mine.problem || !task.stored) continue;
      const auto chosen = static_cast<std::size_t>(take_stored(task).candidate);
      const Candidate& candidate = task.task.candidates[chosen];
      if (candidate.name == wanted.name && prepare(candidate).ok()) return candidate;
    }
    return std::nullopt;
  }

  Selection& selection_;
  const std::vector<bool>& repeats_;
  const LowerAgain& lower_;
};

}  // namespace

std::vector<Swap> find_swaps(Selection& selection, const std::vector<bool>& repeats,
                             const LowerAgain& lower) {
  Finder finder(selection, repeats, lower);
  std::vector<Swap> swaps;
  for (std::size_t i = 0; i < selection.tasks.size(); ++i) {
    if (std::optional<Swap> swap = finder.find(i)) swaps.push_back(std::move(*swap));
  }
  return swaps;
}

void settle_swaps(const std::vector<Swap>& swaps, Selection& selection) {
  for (const Swap& swap : swaps) {
    for (const Swap::Pick& pick : swap.picks) {
      Choice& choice = selection.choices[pick.task];
      if (swap.is_taken) {
        char why[96];
        std::snprintf(why, sizeof why,
                      "taken since the whole program needs %.2f us with it, %.2f us without",
                      swap.us, swap.us_without);
        choice.candidate = static_cast<int>(pick.candidate);
        choice.verdicts[pick.candidate].remark = why;
      } else if (pick.is_added) {
        choice.verdicts.pop_back();
        selection.tasks[pick.task].task.candidates.pop_back();
      }
    }
  }
}

}  // namespace ai::detail
