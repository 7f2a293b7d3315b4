#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/executable.hpp"
#include "ai/program.hpp"
#include "capture/runs.hpp"
#include "capture/tuning_cache.hpp"

namespace ai::detail {

/// A task of the program, and how to tell it from others.
struct LoweredTask {
  Task task;
  /// Equal for tasks that pose the same problem (problem_key.hpp). Empty for a user step or a copy.
  std::string problem;
  bool fixed = false;    ///< nothing to choose and to explain: a user step or a copy
  std::size_t item = 0;  ///< of the program
  /// Of a task that is a run of plans as a whole; its first plan is `item`.
  std::optional<Run> run = {};
  float trial_scale = 1;  ///< the largest value of operands that are made up for a trial
  /// What its one applicable candidate was recalled from; nullopt: candidates were searched for.
  std::optional<StoredChoice> stored = {};
  bool is_refused = false;  ///< the backend could not make what was known to be best
};

/// What was found best for the problem of a task, by its key; null where nothing is known. The
/// pointer is valid until the next call. May throw std::bad_alloc.
using KnownChoices = std::function<const StoredChoice*(const std::string& problem)>;

using BackendMaker = std::function<std::unique_ptr<Backend>()>;
/// Makes the step that carries a copy out (copy_step.hpp).
using CopyMaker = std::function<Result<std::shared_ptr<Step>>(const CopyStep&)>;

/// The tasks of every item of `program`, in order. A user step and a copy become a task with one
/// candidate. Invalid names a user step that has no function for `target` (Host or CUDA). May throw
/// std::bad_alloc.
[[nodiscard]] Result<std::vector<LoweredTask>> lower(const Program& program, Backend& backend,
                                                     Target target, const CopyMaker& make_copy);
/// Those of one item, said to be the `index`-th. As above. Where `known` knows what to take, the
/// backend is asked for that alone.
[[nodiscard]] Result<std::vector<LoweredTask>> lower_item(const Program::Item& item,
                                                          std::size_t index, Backend& backend,
                                                          Target target, const CopyMaker& make_copy,
                                                          const KnownChoices& known = {});
/// The same, and what `known` gave is prepared. Where it cannot be, the item is lowered without it;
/// `refused` then says why, as where the backend could not make it.
[[nodiscard]] Result<std::vector<LoweredTask>> lower_known(
    const Program::Item& item, std::size_t index, Backend& backend, Target target,
    const CopyMaker& make_copy, const KnownChoices& known, Status& refused);

/// The tensors whose memory an item touches, with the names that errors call them by. May throw
/// std::bad_alloc.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  bool is_written = false;
};
[[nodiscard]] std::vector<NamedTensor> operands_of(const Program::Item& item);

/// What an item is called in errors: "forward Y[64,10]", "step 'loss'", "copy_in [64,10]".
[[nodiscard]] std::string name_of(const Program::Item& item);
[[nodiscard]] std::string name_of(const CopyStep& copy);

/// The byte ranges of a program's temporaries. May throw std::bad_alloc.
[[nodiscard]] std::vector<MemoryRange> temporaries_of(const Program& program);

}  // namespace ai::detail
