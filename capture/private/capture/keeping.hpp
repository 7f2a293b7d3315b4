#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "capture/choice.hpp"
#include "capture/lowering.hpp"
#include "capture/program_trial.hpp"
#include "capture/recollection.hpp"
#include "capture/selection.hpp"

namespace ai::detail {

/// Adds to `measured` what was timed for tasks by themselves. An entry that ran out of time says
/// that it had `share_s` at least: what the next start of this program will have for it. May throw
/// std::bad_alloc, as may what follows.
void keep_alone(std::span<const LoweredTask> tasks, std::span<const Choice> choices, double share_s,
                TuningCache::Choices& measured);

/// The same of a whole program's selection but for tasks that repeat others: what is best alone,
/// which is `alone`, for any program, and what is better in this one for this one, by its
/// `context`.
void keep_in(const std::string& context, const Selection& selection,
             const std::vector<bool>& repeats, const Picks& alone, double share_s,
             Recollection& file, TuningCache::Choices& measured);

/// What to take for a task that is the `index`-th of an item, where an earlier item of the same
/// problem has `tasks` with `choices`: the same, prepared, if the task has it, else the first.
[[nodiscard]] Result<Choice> repeated(const LoweredTask& lowered,
                                      std::span<const LoweredTask> tasks,
                                      std::span<const Choice> choices, std::size_t index);

}  // namespace ai::detail
