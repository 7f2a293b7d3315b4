#include "capture/bound_run.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "capture/moved_item.hpp"

namespace ai::detail {
namespace {

/// What a part touches, without the caller's functions.
Program::Item outline(const Program::Item& part) {
  const auto* const user = std::get_if<UserStep>(&part);
  if (user == nullptr) return part;
  UserStep step;
  step.name = user->name;
  step.reads = user->reads;
  step.writes = user->writes;
  return step;
}

Result<std::vector<ChosenTask>> chosen_anew(const Program::Item& part,
                                            std::span<const ChosenTask> before,
                                            const Workshop& workshop, Backend& backend) {
  Result<std::vector<LoweredTask>> tasks =
      lower_item(part, 0, backend, workshop.target, workshop.make_copy);
  AI_RETURN_IF_ERROR(tasks.status());
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < tasks->size(); ++i) {
    Result<Choice> choice =
        take_again((*tasks)[i].task, i < before.size() ? before[i].candidate : std::string());
    AI_RETURN_IF_ERROR(choice.status());
    choices.push_back(std::move(*choice));
  }
  return chosen_tasks(*tasks, choices);
}

/// Of the run as a whole; none where it cannot be had.
std::vector<ChosenTask> fused_anew(const BoundItem& item, const Workshop& workshop,
                                   Backend& backend) {
  PlanRun run;
  for (const Program::Item& part : item.parts) run.plans.push_back(std::get<GemmPlan>(part));
  run.keeps_y = item.run.keeps_y;
  const RecalledCandidate known{item.tasks.front().candidate, item.tasks.front().recipe};
  const FuseOptions options{1, workshop.kernel_folder, workshop.cooperative};
  Result<std::vector<Task>> tasks =
      backend.fuse({&run, 1}, options, [&](std::size_t) { return &known; });
  if (!tasks || tasks->size() != 1) return {};
  LoweredTask lowered;
  lowered.task = std::move(tasks->front());
  const Result<Choice> choice = take_again(lowered.task, known.name);
  if (!choice || !lowered.task.recalled) return {};
  return chosen_tasks({&lowered, 1}, {&*choice, 1});
}

/// The `part`-th plan of a run as an item of its own, without tasks.
BoundItem alone(const BoundItem& run, std::size_t part, std::size_t& slot) {
  BoundItem item;
  item.parts = {run.parts[part]};
  item.run.items = {run.run.items[part]};
  const std::size_t count = operands_of(run.parts[part]).size();
  const auto first = run.slots.begin() + static_cast<std::ptrdiff_t>(slot);
  item.slots.assign(first, first + static_cast<std::ptrdiff_t>(count));
  slot += count;
  return item;
}

}  // namespace

bool runs_may_stand(const Blueprint& blueprint, std::span<const MovedItem> moved) {
  if (moved.empty()) return true;
  std::vector<Run> runs;
  std::size_t count = 0;
  for (const BoundItem& item : blueprint.items) {
    count += item.parts.size();
    if (item.is_run()) runs.push_back(item.run);
  }
  if (runs.empty()) return true;
  std::vector<Program::Item> items(count, CopyStep{});
  auto next = moved.begin();
  for (std::size_t i = 0; i < blueprint.items.size(); ++i) {
    BoundItem now;
    now.slots = blueprint.items[i].slots;
    for (const Program::Item& part : blueprint.items[i].parts) now.parts.push_back(outline(part));
    if (next != moved.end() && next->index == i) place(now, *next++);
    for (std::size_t part = 0; part < now.parts.size(); ++part) {
      items[blueprint.items[i].run.items[part]] = std::move(now.parts[part]);
    }
  }
  return may_stand(items, runs);
}

Status part_runs(Blueprint& blueprint, std::vector<bool>& marks, Backend& backend) {
  struct Marked {
    BoundItem item;
    bool mark = false;
  };
  std::vector<Marked> all;
  for (std::size_t i = 0; i < blueprint.items.size(); ++i) {
    BoundItem& item = blueprint.items[i];
    if (!item.is_run()) {
      all.push_back({std::move(item), marks[i]});
      continue;
    }
    std::size_t slot = 0;
    for (std::size_t part = 0; part < item.parts.size(); ++part) {
      BoundItem single = alone(item, part, slot);
      AI_RETURN_IF_ERROR(lower_anew(single, blueprint.workshop, backend));
      for (Slot& each : single.slots) each.built = each.now;
      all.push_back({std::move(single), false});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Marked& a, const Marked& b) {
    return a.item.run.items.front() < b.item.run.items.front();
  });
  blueprint.items.clear();
  marks.clear();
  for (Marked& marked : all) {
    blueprint.items.push_back(std::move(marked.item));
    marks.push_back(marked.mark);
  }
  list_owners(blueprint);
  return {};
}

Status make_run_anew(BoundItem& run, const Workshop& workshop, Backend& backend) {
  if (run.is_fused()) {
    std::vector<ChosenTask> whole = fused_anew(run, workshop, backend);
    if (!whole.empty()) {
      run.tasks = std::move(whole);
      return {};
    }
  }
  std::vector<ChosenTask> tasks;
  for (const Program::Item& part : run.parts) {
    Result<std::vector<ChosenTask>> mine = chosen_anew(part, {}, workshop, backend);
    AI_RETURN_IF_ERROR(mine.status());
    std::move(mine->begin(), mine->end(), std::back_inserter(tasks));
  }
  run.tasks = std::move(tasks);
  run.run.keeps_y.clear();  // plan by plan from now on
  return {};
}

Status lower_anew(BoundItem& item, const Workshop& workshop, Backend& backend) {
  Result<std::vector<ChosenTask>> tasks =
      chosen_anew(item.parts.front(), item.tasks, workshop, backend);
  AI_RETURN_IF_ERROR(tasks.status());
  item.tasks = std::move(*tasks);
  return {};
}

}  // namespace ai::detail
