#pragma once

#include <span>
#include <vector>

#include "ai/backend.hpp"
#include "capture/blueprint.hpp"
#include "capture/rebinding.hpp"

namespace ai::detail {

/// Whether the blueprint's runs may stand with `moved` items over their new addresses: what these
/// touch now may tie plans of a run to each other, or to an item that they have moved over. May
/// throw std::bad_alloc, as may what follows.
[[nodiscard]] bool runs_may_stand(const Blueprint& blueprint, std::span<const MovedItem> moved);

/// Puts the plans of all runs back to where they stood in the program, each with steps of its own.
/// `marks` of the other items move with them.
[[nodiscard]] Status part_runs(Blueprint& blueprint, std::vector<bool>& marks, Backend& backend);

/// Makes the steps of a run over the addresses it has now: as a whole, with the candidate it had if
/// that can be had, else plan by plan.
[[nodiscard]] Status make_run_anew(BoundItem& run, const Workshop& workshop, Backend& backend);

/// The same of an item that is no run: with the candidates it had if these can be had without
/// measuring.
[[nodiscard]] Status lower_anew(BoundItem& item, const Workshop& workshop, Backend& backend);

}  // namespace ai::detail
