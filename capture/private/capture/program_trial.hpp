#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ai/step.hpp"
#include "capture/lanes.hpp"
#include "capture/lowering.hpp"
#include "capture/stopwatch.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// For each task of a program the index of one of its candidates.
using Picks = std::vector<std::size_t>;

/// What the steps of a program, in order, must wait for, by their data and on `lanes` lanes (0: no
/// limit). May throw std::bad_alloc, as may what follows.
[[nodiscard]] StepLists step_lists(std::span<const LoweredTask> tasks, const Picks& picks,
                                   int lanes = 0);

/// How long there is for timing programs, and how it is known.
struct TrialClock {
  std::function<double()> now;
  double end = 0;
  double budget_s = 0;  ///< that ends then
  double warm_s = 0;    ///< of keeping the GPU busy before the first measurement

  [[nodiscard]] bool is_out() const { return now() >= end; }
};

/// What graphs take that were timed in turns, so that a drifting clock favours none.
struct Comparison {
  std::vector<double> us = {};  ///< of each; none where not all were timed even once
  bool is_cut_short = false;
};

/// A program as whole graphs on scratch memory, to be timed. The caller's steps and copies keep
/// their places in the order and do nothing.
class ProgramTrial {
 public:
  /// All outlive this.
  ProgramTrial(const cuda::Api& api, int device, std::span<const LoweredTask> tasks,
               const TrialClock& clock)
      : api_(api), device_(device), tasks_(tasks), clock_(clock), warm_s_(clock.warm_s) {}
  ProgramTrial(const ProgramTrial&) = delete;
  ProgramTrial& operator=(const ProgramTrial&) = delete;
  ~ProgramTrial() { settle(); }

  /// Finds memory for all steps of `all`, each of which picks prepared candidates, and fills it.
  /// Unsupported: there is too little.
  [[nodiscard]] Status set_up(std::span<const Picks> all);
  /// Precondition for this and the next: set_up.
  [[nodiscard]] Result<TimedChain> graph(const Picks& picks, const StepLists& lists) const;
  [[nodiscard]] Result<Comparison> compare(std::span<const TimedChain* const> graphs);

 private:
  void settle() noexcept;

  const cuda::Api& api_;
  const int device_;
  const std::span<const LoweredTask> tasks_;
  const TrialClock& clock_;
  double warm_s_;  // of the next measurement
  cuda::DeviceMemory scratch_;
  AddressMap addresses_;
  cuda::OwnedStream stream_;
  std::optional<Stopwatch> stopwatch_;
};

}  // namespace ai::detail
