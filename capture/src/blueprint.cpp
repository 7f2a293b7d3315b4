#include "capture/blueprint.hpp"

#include <algorithm>
#include <utility>

namespace ai::detail {
namespace {

/// An operand before and after it moved: [begin, end) then, `shift` further now.
struct Piece {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::uintptr_t shift;
};

std::uintptr_t value_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

const Placement* placement_of(const WorkspacePlan& workspace, const MemoryRange& range) noexcept {
  if (range.empty() || !symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin))) {
    return nullptr;
  }
  const auto after = std::upper_bound(
      workspace.placements.begin(), workspace.placements.end(), range.begin,
      [](std::uintptr_t address, const Placement& p) { return address < p.address; });
  return after == workspace.placements.begin() ? nullptr : &*(after - 1);
}

/// The workspace as far as the steps of `item` use it.
AddressMap storage_of(const BoundItem& item, const WorkspacePlan& workspace, void* base) {
  std::vector<const Placement*> used;
  for (const ChosenTask& task : item.tasks) {
    for (const auto& step : task.steps) {
      for (const auto* ranges : {&step->reads(), &step->writes()}) {
        for (const MemoryRange& range : *ranges) {
          const Placement* const placement = placement_of(workspace, range);
          if (placement != nullptr) used.push_back(placement);
        }
      }
    }
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  AddressMap map;
  for (const Placement* p : used) {
    map.add(p->address, p->bytes, static_cast<std::byte*>(base) + p->offset);
  }
  return map;
}

constexpr std::size_t kUnbound = static_cast<std::size_t>(-1);

/// Of one part of an item, whose slots then have those of all parts up to it.
void add_operands(Blueprint& blueprint, const Program::Item& part, std::size_t item) {
  const std::string name = name_of(part);
  for (NamedTensor& operand : operands_of(part)) {
    const MemoryRange range = range_of(operand.tensor);
    Slot slot{operand.tensor.data, operand.tensor.data,
              static_cast<std::size_t>(range.end() - range.begin)};
    if (!symbolic::is_symbolic(operand.tensor.data)) {
      slot.operand = blueprint.operands.size();
      blueprint.operands.push_back(
          {name, std::move(operand.name), operand.tensor, operand.is_written});
    }
    blueprint.items[item].slots.push_back(slot);
  }
}

}  // namespace

Blueprint draw(const Program& program, Workshop workshop, std::span<const LoweredTask> tasks,
               std::span<const Choice> choices) {
  Blueprint blueprint;
  blueprint.workshop = std::move(workshop);
  blueprint.device = program.device_index();
  blueprint.temporaries = temporaries_of(program);
  // Operands stand in the order of the program, so the items must all be there first.
  std::vector<std::size_t> bound_as(program.items().size(), kUnbound);
  std::size_t task = 0;
  for (std::size_t i = 0; i < program.items().size(); ++i) {
    if (bound_as[i] != kUnbound) continue;
    const std::size_t first = task;
    while (task < tasks.size() && tasks[task].item == i) ++task;
    BoundItem bound;
    bound.run = task > first && tasks[first].run ? *tasks[first].run : Run{{i}, {}};
    bound.tasks =
        chosen_tasks(tasks.subspan(first, task - first), choices.subspan(first, task - first));
    for (const std::size_t part : bound.run.items) {
      bound.parts.push_back(program.items()[part]);
      bound_as[part] = blueprint.items.size();
    }
    blueprint.items.push_back(std::move(bound));
  }
  for (std::size_t i = 0; i < program.items().size(); ++i) {
    add_operands(blueprint, program.items()[i], bound_as[i]);
  }
  list_owners(blueprint);
  list_steps(blueprint);
  return blueprint;
}

void list_owners(Blueprint& blueprint) {
  blueprint.item_of.assign(blueprint.operands.size(), 0);
  for (std::size_t i = 0; i < blueprint.items.size(); ++i) {
    for (const Slot& slot : blueprint.items[i].slots) {
      if (slot.operand != Slot::kTemporary) blueprint.item_of[slot.operand] = i;
    }
  }
}

void list_steps(Blueprint& blueprint) {
  blueprint.steps.clear();
  std::vector<Footprint> footprints;
  for (std::size_t i = 0; i < blueprint.items.size(); ++i) {
    const BoundItem& item = blueprint.items[i];
    std::vector<void*> now;
    for (const Slot& slot : item.slots) now.push_back(slot.now);
    AddressMap operands;
    (void)map_operands(item, now, operands);
    for (const ChosenTask& task : item.tasks) {
      for (const auto& step : task.steps) {
        footprints.push_back(footprint(blueprint.steps.size(), *step, operands));
        blueprint.steps.push_back({step.get(), i});
      }
    }
  }
  blueprint.hazards = Hazards(std::move(footprints));
}

StepLists step_lists(const Blueprint& blueprint) {
  std::vector<bool> timed;
  for (const BoundStep& bound : blueprint.steps) {
    timed.push_back(blueprint.items[bound.item].is_plan());
  }
  return in_lanes(blueprint.hazards.dependencies(), blueprint.order.lanes, timed);
}

WorkspacePlan plan_workspace(const Blueprint& blueprint,
                             const std::vector<std::vector<int>>& dependencies) {
  std::vector<const Step*> steps;
  for (const BoundStep& bound : blueprint.steps) steps.push_back(bound.step);
  return plan_workspace(steps, dependencies, blueprint.temporaries);
}

void bind(Blueprint& blueprint, const WorkspacePlan& workspace, void* base) {
  for (BoundItem& item : blueprint.items) {
    std::vector<void*> now;
    for (const Slot& slot : item.slots) now.push_back(slot.now);
    item.storage = storage_of(item, workspace, base);
    item.addresses = item.storage;
    (void)map_operands(item, now, item.addresses);
  }
}

bool map_operands(const BoundItem& item, std::span<void* const> now, AddressMap& addresses) {
  std::vector<Piece> pieces;
  pieces.reserve(item.slots.size());
  for (std::size_t i = 0; i < item.slots.size(); ++i) {
    const Slot& slot = item.slots[i];
    if (slot.operand == Slot::kTemporary) continue;
    const std::uintptr_t begin = value_of(slot.built);
    pieces.push_back({begin, begin + slot.bytes, value_of(now[i]) - begin});
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::size_t count = 0;
  for (const Piece& piece : pieces) {
    Piece* const last = count > 0 ? &pieces[count - 1] : nullptr;
    if (last == nullptr || (piece.begin >= last->end && piece.begin != last->begin)) {
      pieces[count++] = piece;
    } else if (piece.shift != last->shift) {
      return false;
    } else {
      last->end = std::max(last->end, piece.end);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Piece& piece = pieces[i];
    if (piece.shift == 0) continue;
    addresses.add(piece.begin, piece.end - piece.begin,
                  reinterpret_cast<void*>(piece.begin + piece.shift));
  }
  return true;
}

Footprint footprint(std::size_t index, const Step& step, const AddressMap& addresses) {
  Footprint print{index, step.reads(), step.writes()};
  for (auto* ranges : {&print.reads, &print.writes}) {
    for (MemoryRange& range : *ranges) {
      const auto* const begin = reinterpret_cast<const void*>(range.begin);
      // Storage keeps its symbolic address: what shares a place in the workspace is no hazard.
      if (!symbolic::is_symbolic(begin)) range.begin = value_of(addresses(begin));
    }
  }
  return print;
}

std::vector<ChosenTask> chosen_tasks(std::span<const LoweredTask> tasks,
                                     std::span<const Choice> choices) {
  std::vector<ChosenTask> chosen;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i].task;
    const Candidate& candidate = task.candidates[static_cast<std::size_t>(choices[i].candidate)];
    chosen.push_back({candidate.name, candidate.recipe,
                      explain(tasks.subspan(i, 1), choices.subspan(i, 1)), candidate.steps});
  }
  return chosen;
}

std::vector<std::shared_ptr<Step>> steps_of(const Blueprint& blueprint) {
  std::vector<std::shared_ptr<Step>> steps;
  for (const BoundItem& item : blueprint.items) {
    for (const ChosenTask& task : item.tasks) {
      steps.insert(steps.end(), task.steps.begin(), task.steps.end());
    }
  }
  return steps;
}

std::string explain(const Blueprint& blueprint) {
  std::string text;
  for (const BoundItem& item : blueprint.items) {
    for (const ChosenTask& task : item.tasks) text += task.explain;
  }
  return text + blueprint.run_notes + blueprint.order.note;
}

}  // namespace ai::detail
