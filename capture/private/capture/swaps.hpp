#pragma once

#include <functional>
#include <vector>

#include "capture/choice.hpp"
#include "capture/lowering.hpp"
#include "capture/order_tuner.hpp"
#include "capture/selection.hpp"

namespace ai::detail {

/// The tasks of an item again, with all their candidates.
using LowerAgain = std::function<Result<std::vector<LoweredTask>>(std::size_t item)>;

/// For each problem that was measured and had a runner-up which came close, that one, wherever the
/// program poses the problem: it is added to the candidates of tasks that do not have it.
/// `repeats[i]`: task i poses the problem of an earlier one. What cannot be had is left out. May
/// throw std::bad_alloc, as may the next.
[[nodiscard]] std::vector<Swap> find_swaps(Selection& selection, const std::vector<bool>& repeats,
                                           const LowerAgain& lower);

/// Makes the swaps that were taken the choices of their tasks, and takes the candidates back that
/// were added for others.
void settle_swaps(const std::vector<Swap>& swaps, Selection& selection);

}  // namespace ai::detail
