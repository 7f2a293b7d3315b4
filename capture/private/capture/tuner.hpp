#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ai/tuning.hpp"
#include "capture/choice.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

struct TunerSettings {
  bool measure = true;               ///< false: table order, with a check of what is not trusted
  double budget_s = 2.0;             ///< for all measuring; cut-short tasks get what is left
  double kept_s = 0;                 ///< of it, for what comes behind choose and for late checks
  double warm_s = 0.05;              ///< how long the GPU is kept busy before the first measurement
  std::function<double()> now = {};  ///< seconds; empty: a steady clock
  TuningProgressHandler on_progress = {};  ///< what it throws is dropped
  bool fuse_layers = true;                 ///< whether runs of plans may be done as a whole
  bool cooperative = true;                 ///< FuseOptions::cooperative
  std::string kernel_folder = {};          ///< FuseOptions::kernel_folder
};
/// A clock for those that give none.
[[nodiscard]] double steady_seconds() noexcept;

/// Chooses a candidate for each task and prepares its steps; what is `stored` is taken, and has
/// been prepared. Runs candidates on scratch memory only: user operands are neither read nor
/// written. Where scratch would take more than a quarter of the free device memory, nothing of that
/// task is run and only trusted candidates are open. Call on `device`, in relaxed capture mode. May
/// throw std::bad_alloc.
[[nodiscard]] Result<std::vector<Choice>> choose(const cuda::Api& api, int device,
                                                 std::span<const LoweredTask> tasks,
                                                 std::span<const MemoryRange> temporaries,
                                                 const TunerSettings& settings);

}  // namespace ai::detail
