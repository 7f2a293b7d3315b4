#include "capture/keeping.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "capture/problem_key.hpp"

namespace ai::detail {
namespace {

/// Tasks of one problem have the same candidates, unless a backend thinks otherwise.
bool alike(const Task& a, const Task& b) {
  return std::equal(a.candidates.begin(), a.candidates.end(), b.candidates.begin(),
                    b.candidates.end(), [](const Candidate& x, const Candidate& y) {
                      return x.name == y.name && x.applicable() == y.applicable();
                    });
}

}  // namespace

void keep_alone(std::span<const LoweredTask> tasks, std::span<const Choice> choices, double share_s,
                TuningCache::Choices& measured) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (count_timed(choices[i]) == 0) continue;
    const auto stored = to_store(tasks[i].task, choices[i], std::max(choices[i].share_s, share_s));
    if (stored) measured.emplace(tasks[i].problem, *stored);
  }
}

void keep_in(const std::string& context, const Selection& selection,
             const std::vector<bool>& repeats, const Picks& alone, double share_s,
             Recollection& file, TuningCache::Choices& measured) {
  for (std::size_t i = 0; i < selection.tasks.size(); ++i) {
    if (repeats[i] || count_timed(selection.choices[i]) == 0) continue;
    const LoweredTask& lowered = selection.tasks[i];
    Choice choice = selection.choices[i];
    const auto stored_here = to_store(lowered.task, choice, std::max(choice.share_s, share_s));
    const bool is_swapped =
        std::exchange(choice.candidate, static_cast<int>(alone[i])) != static_cast<int>(alone[i]);
    const std::string here = key_in(lowered.problem, context);
    // An older entry of this program's would come first at the next start.
    if (stored_here && (is_swapped || file.has(here))) measured.emplace(here, *stored_here);
    keep_alone({&lowered, 1}, {&choice, 1}, share_s, measured);
  }
}

Result<Choice> repeated(const LoweredTask& lowered, std::span<const LoweredTask> tasks,
                        std::span<const Choice> choices, std::size_t index) {
  std::optional<Choice> choice;
  if (lowered.stored) {
    choice = take_stored(lowered);
  } else if (index < tasks.size() && alike(lowered.task, tasks[index].task)) {
    const auto chosen = static_cast<std::size_t>(choices[index].candidate);
    if (prepare(lowered.task.candidates[chosen]).ok()) choice = choices[index];
  }
  if (!choice) {
    Result<std::vector<Choice>> another = take_first({&lowered, 1});
    AI_RETURN_IF_ERROR(another.status());
    return std::move(another->front());
  }
  choice->note = "the same problem as " + tasks[index].task.name + " above";
  return std::move(*choice);
}

}  // namespace ai::detail
