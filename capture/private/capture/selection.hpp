#pragma once

#include <string>
#include <vector>

#include "ai/program.hpp"
#include "ai/tuning.hpp"
#include "capture/choice.hpp"
#include "capture/lanes.hpp"
#include "capture/lowering.hpp"
#include "capture/recollection.hpp"
#include "capture/tuner.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// The tasks of a program, in its order, and what was chosen for each, and for all together.
struct Selection {
  std::vector<LoweredTask> tasks = {};
  std::vector<Choice> choices = {};
  StepOrder order = {};
  std::string run_notes = {};  ///< for explain(): on runs that are not carried out as a whole
  TuningReport report = {};
};

/// From a program to prepared steps. What `file` knows is taken, unless `tuning` says otherwise,
/// what it does not is measured (see choose) and stored. An item that poses the problem of an
/// earlier one gets its candidates, without another search. Runs of plans are carried out as a
/// whole where that is known or measured to be quicker. Then the order of all steps is taken from
/// the file or measured, in what is left of the budget. As choose in everything else.
[[nodiscard]] Result<Selection> select(const cuda::Api& api, const Program& program,
                                       Backend& backend, const CopyMaker& make_copy,
                                       Recollection& file, Tuning tuning,
                                       const TunerSettings& settings);

}  // namespace ai::detail
