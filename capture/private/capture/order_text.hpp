#pragma once

#include <optional>
#include <span>
#include <string>

#include "capture/lanes.hpp"
#include "capture/lowering.hpp"
#include "capture/program_trial.hpp"

namespace ai::detail {

/// What an order is kept by: it holds for these steps, waiting for each other like this. E.g.
/// "order of 9 steps, 12 edges, 0123456789abcdef". May throw std::bad_alloc, as may all below.
[[nodiscard]] std::string order_key(std::span<const LoweredTask> tasks, const Picks& picks,
                                    const StepLists& lists);

/// An order and the time of one replay; negative: not timed.
struct TimedOrder {
  int lanes = 0;  ///< 0: as many as the data flow allows
  double us = -1;
};

/// How the order that was taken is kept, before another one.
[[nodiscard]] StoredChoice to_store(const TimedOrder& taken, const TimedOrder& other);
/// An order that was kept as `stored` in the file at `path`; nullopt where it says nothing.
[[nodiscard]] std::optional<StepOrder> recalled_order(const StoredChoice& stored,
                                                      const std::string& path);

/// The line of explain() for an order that was timed.
[[nodiscard]] std::string note_on(const TimedOrder& taken, const TimedOrder& other);
/// And for that of the data flow, which was taken because of `why`.
[[nodiscard]] std::string note_on_data_flow(const std::string& why);

}  // namespace ai::detail
