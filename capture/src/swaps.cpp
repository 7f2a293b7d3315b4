#include "capture/swaps.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
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
    if (task.fixed || task.run || task.stored || repeats_[first]) return std::nullopt;
    const std::optional<std::size_t> other = runner_up(selection_.choices[first]);
    // One that cannot be kept would be another choice at the next start.
    if (!other || task.task.candidates[*other].recipe.empty()) return std::nullopt;
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
    if (const auto present = index_of(wanted, mine)) {
      if (!prepare(mine[*present]).ok()) return std::nullopt;
      return Swap::Pick{repeat, *present};
    }
    const std::vector<LoweredTask>& again = searched_again(selection_.tasks[repeat].item);
    if (again.empty()) return std::nullopt;
    const std::vector<Candidate>& all = again[repeat - first_of(repeat)].task.candidates;
    const auto found = index_of(wanted, all);
    if (!found || !prepare(all[*found]).ok()) return std::nullopt;
    mine.push_back(all[*found]);
    const Verdict& verdict = selection_.choices[first].verdicts[other];
    Verdict& copied = selection_.choices[repeat].verdicts.emplace_back();
    copied.time_us = verdict.time_us;
    copied.checked = true;
    return Swap::Pick{repeat, mine.size() - 1, true};
  }

  static std::optional<std::size_t> index_of(const Candidate& wanted,
                                             const std::vector<Candidate>& all) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Candidate& candidate) {
      return candidate.applicable() && candidate.name == wanted.name &&
             candidate.recipe == wanted.recipe;
    });
    if (found == all.end()) return std::nullopt;
    return static_cast<std::size_t>(found - all.begin());
  }

  /// Of the tasks of its item.
  [[nodiscard]] std::size_t first_of(std::size_t task) const {
    std::size_t first = task;
    while (first > 0 && selection_.tasks[first - 1].item == selection_.tasks[task].item) --first;
    return first;
  }

  /// The tasks of an item with all candidates; empty where they cannot be had. What is taken now
  /// is exchanged for the same of theirs: the tasks of an item share storage, which each lowering
  /// makes anew.
  const std::vector<LoweredTask>& searched_again(std::size_t item) {
    const auto [found, is_new] = again_.emplace(item, std::vector<LoweredTask>());
    std::vector<LoweredTask>& again = found->second;
    if (!is_new) return again;
    if (Result<std::vector<LoweredTask>> made = lower_(item)) again = std::move(*made);
    std::size_t first = 0;
    while (selection_.tasks[first].item != item) ++first;
    if (!take_the_same(again, first)) again.clear();
    return again;
  }

  bool take_the_same(const std::vector<LoweredTask>& again, std::size_t first) {
    std::vector<std::size_t> taken;
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (first + i >= selection_.tasks.size()) return false;
      const LoweredTask& old = selection_.tasks[first + i];
      if (old.problem != again[i].problem) return false;
      const std::vector<Candidate>& all = again[i].task.candidates;
      const auto chosen = static_cast<std::size_t>(selection_.choices[first + i].candidate);
      const auto same = index_of(old.task.candidates[chosen], all);
      if (!same || !prepare(all[*same]).ok()) return false;
      taken.push_back(*same);
    }
    for (std::size_t i = 0; i < again.size(); ++i) {
      std::vector<Candidate>& mine = selection_.tasks[first + i].task.candidates;
      Choice& choice = selection_.choices[first + i];
      choice.verdicts = {choice.verdicts[static_cast<std::size_t>(choice.candidate)]};
      choice.candidate = 0;
      mine = {again[i].task.candidates[taken[i]]};
    }
    return true;
  }

  Selection& selection_;
  const std::vector<bool>& repeats_;
  const LowerAgain& lower_;
  std::map<std::size_t, std::vector<LoweredTask>> again_;  // by item
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
