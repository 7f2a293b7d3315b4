#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "capture/lanes.hpp"
#include "capture/lowering.hpp"
#include "capture/program_trial.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// What an order is kept by: it holds for these steps, waiting for each other like this. E.g.
/// "order of 9 steps, 12 edges, 0123456789abcdef". May throw std::bad_alloc, as may all below.
[[nodiscard]] std::string order_key(std::span<const LoweredTask> tasks, const Picks& picks,
                                    const StepLists& lists);

/// An order that was kept as `stored` in the file at `path`; nullopt where it says nothing.
[[nodiscard]] std::optional<StepOrder> recalled_order(const StoredChoice& stored,
                                                      const std::string& path);

/// How long there is for timing orders, and how it is known.
struct OrderClock {
  std::function<double()> now;
  double end = 0;
  double budget_s = 0;  ///< that ends then
  double warm_s = 0;    ///< of keeping the GPU busy before the first measurement
};

struct ChosenOrder {
  StepOrder order = {};
  std::optional<StoredChoice> stored = {};  ///< what is to be kept
  std::size_t timed = 0;                    ///< orders
};

/// Times the program whole, on scratch memory, with no limit and with few lanes, and takes a number
/// of lanes where it is quicker by more than noise. What goes wrong becomes a note, and the order
/// that of the data flow.
[[nodiscard]] ChosenOrder choose_order(const cuda::Api& api, int device,
                                       std::span<const LoweredTask> tasks, const Picks& picks,
                                       const StepLists& lists, const OrderClock& clock);

}  // namespace ai::detail
