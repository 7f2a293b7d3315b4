#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/lanes.hpp"
#include "capture/lowering.hpp"
#include "capture/program_trial.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// Another candidate, prepared, for a problem that the program poses once or several times. Times
/// of short work do not add up exactly, so that it may be better in its place than the quickest.
struct Swap {
  struct Pick {
    std::size_t task = 0;
    std::size_t candidate = 0;
    bool is_added = false;  ///< the task did not have it before
  };
  std::vector<Pick> picks = {};
  bool is_taken = false;
  double us = -1;          ///< of the whole program with it, where it was taken
  double us_without = -1;  ///< and without
};

struct ChosenOrder {
  StepOrder order = {};
  std::optional<StoredChoice> stored = {};  ///< what is to be kept
  std::size_t timed = 0;                    ///< orders
};

/// Times the program whole, on scratch memory, with no limit and with few lanes, and takes a number
/// of lanes where it is quicker by more than noise. Then tries the swaps, one after another, and
/// puts into `picks` what makes the program quicker. What goes wrong becomes a note, and the order
/// that of the data flow. May throw std::bad_alloc.
[[nodiscard]] ChosenOrder choose_order(const cuda::Api& api, int device,
                                       std::span<const LoweredTask> tasks, Picks& picks,
                                       std::span<Swap> swaps, const TrialClock& clock);

}  // namespace ai::detail
