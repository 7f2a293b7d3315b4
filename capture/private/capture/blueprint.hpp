#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/executable.hpp"
#include "ai/program.hpp"
#include "capture/choice.hpp"
#include "capture/hazards.hpp"
#include "capture/lanes.hpp"
#include "capture/lowering.hpp"
#include "capture/runs.hpp"
#include "capture/workspace.hpp"

namespace ai::detail {

/// How the items of a program become steps.
struct Workshop {
  Target target = Target::CUDA;
  BackendMaker make_backend = {};
  CopyMaker make_copy = {};
  std::string kernel_folder = {};  ///< FuseOptions::kernel_folder
  bool cooperative = true;         ///< FuseOptions::cooperative
};

/// A choice that was made for a task, and the steps it stands for.
struct ChosenTask {
  std::string candidate = {};
  std::string recipe = {};
  std::string explain = {};
  std::vector<std::shared_ptr<Step>> steps = {};
};

/// An operand of an item, in the order of operands_of each part.
struct Slot {
  static constexpr std::size_t kTemporary = static_cast<std::size_t>(-1);
  void* built = nullptr;             ///< where the item's steps were built for it
  void* now = nullptr;               ///< where the next launch finds it
  std::size_t bytes = 0;             ///< from its first to its last
  std::size_t operand = kTemporary;  ///< of the blueprint
};

/// An item of the program, or a run of plans that are carried out as a whole, with what was chosen
/// for it. Its steps are built over the addresses of one time and mapped to those of another; each
/// has a map of its own, since two items may use different parts of one buffer.
struct BoundItem {
  std::vector<Program::Item> parts;  ///< over the addresses of the next launch
  Run run = {};                      ///< where the parts stood in the program
  std::vector<ChosenTask> tasks = {};
  std::vector<Slot> slots = {};
  AddressMap storage = {};    ///< the symbolic storage of its steps over the workspace
  AddressMap addresses = {};  ///< and its operands

  [[nodiscard]] bool is_run() const noexcept { return parts.size() > 1; }
  /// Whether it is carried out as a whole; a single plan may be, too.
  [[nodiscard]] bool is_fused() const noexcept { return !run.keeps_y.empty(); }
  [[nodiscard]] bool is_plan() const noexcept {
    return std::holds_alternative<GemmPlan>(parts.front());
  }
  [[nodiscard]] bool is_user() const noexcept {
    return std::holds_alternative<UserStep>(parts.front());
  }
};

struct BoundStep {
  Step* step = nullptr;
  std::size_t item = 0;
};

/// What an executable is built from, kept so that it can be built again over other memory.
struct Blueprint {
  Workshop workshop = {};
  int device = 0;
  int retries = 0;
  std::vector<MemoryRange> temporaries = {};
  std::vector<BoundItem> items = {};
  std::vector<BoundOperand> operands = {};  ///< in the order of the program
  std::vector<std::size_t> item_of = {};    ///< for each operand
  std::vector<BoundStep> steps = {};        ///< of all items, in order
  Hazards hazards = {};
  StepOrder order = {};
  std::string run_notes = {};  ///< lines on the runs that are not carried out as a whole
};

/// May throw std::bad_alloc and what copying a user step's function throws, as may what copies a
/// blueprint.
[[nodiscard]] Blueprint draw(const Program& program, Workshop workshop,
                             std::span<const LoweredTask> tasks, std::span<const Choice> choices);

/// Lists anew which item each operand belongs to.
void list_owners(Blueprint& blueprint);
/// Lists the steps of the items anew, and what must wait for what.
void list_steps(Blueprint& blueprint);
/// What each listed step waits for: its hazards and its lane.
[[nodiscard]] StepLists step_lists(const Blueprint& blueprint);
/// Plans the workspace of the listed steps. `dependencies` is theirs.
[[nodiscard]] WorkspacePlan plan_workspace(const Blueprint& blueprint,
                                           const std::vector<std::vector<int>>& dependencies);
/// Maps symbolic storage to a workspace at `base`, and operands to where they are now.
void bind(Blueprint& blueprint, const WorkspacePlan& workspace, void* base);

/// Adds to `addresses` where the operands of `item` are, given as `now`. False where one map cannot
/// say it: they overlap each other where the steps were built and have moved apart.
[[nodiscard]] bool map_operands(const BoundItem& item, std::span<void* const> now,
                                AddressMap& addresses);
/// What a step of an item touches under `addresses`.
[[nodiscard]] Footprint footprint(std::size_t index, const Step& step, const AddressMap& addresses);

[[nodiscard]] std::vector<ChosenTask> chosen_tasks(std::span<const LoweredTask> tasks,
                                                   std::span<const Choice> choices);

[[nodiscard]] std::vector<std::shared_ptr<Step>> steps_of(const Blueprint& blueprint);
[[nodiscard]] std::string explain(const Blueprint& blueprint);

}  // namespace ai::detail
