#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/lower.hpp"
#include "kernels/task_recall.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels {
namespace {

bool searches(const ForwardFamily& family, const ForwardProblem& problem) {
  return family.searches != nullptr && family.reason(problem).empty() && family.searches(problem);
}

/// Fills `task` with the candidate that was found best earlier; false where there is none to use.
bool recall_into(Task& task, Machine& machine, const ForwardProblem& problem,
                 const TaskRecall& recall) {
  const RecalledCandidate* known = nullptr;
  for (const ForwardFamily& family : kForwardFamilies) {
    if (!searches(family, problem)) continue;
    if (known == nullptr) known = recall();
    if (known == nullptr) return false;
    std::optional<Candidate> candidate = family.recall(machine, problem, *known);
    if (!candidate) continue;
    for (const ForwardFamily& other : kForwardFamilies) {
      if (std::string reason = other.reason(problem); !reason.empty()) {
        task.candidates.push_back({.name = other.name, .reason = std::move(reason), .steps = {}});
      }
    }
    task.candidates.push_back(*std::move(candidate));
    task.recalled = true;
    return true;
  }
  return false;
}

Status search_into(Task& task, Machine& machine, const ForwardProblem& problem) {
  const std::size_t before = machine.queries();
  for (const ForwardFamily& family : kForwardFamilies) {
    if (std::string reason = family.reason(problem); !reason.empty()) {
      task.candidates.push_back({.name = family.name, .reason = std::move(reason), .steps = {}});
    } else {
      AI_RETURN_IF_ERROR(family.append(machine, problem, task.candidates));
    }
  }
  task.queries = machine.queries() - before;
  // The last candidate is the fallback, so those that do not apply move ahead of the others.
  std::stable_partition(task.candidates.begin(), task.candidates.end(),
                        [](const Candidate& candidate) { return !candidate.applicable(); });
  return {};
}

}  // namespace

Result<std::vector<Task>> lower_forward(Machine& machine, const GemmPlan& plan,
                                        const Recall& recall, std::size_t first) {
  const ForwardProblem problem = forward_problem(plan);
  Task task;
  task.name = "forward Y" + shape_text(problem.product.d) + " K=" + std::to_string(plan.k());
  if (plan.m() == 0 || plan.n() == 0) {
    task.candidates.push_back({.name = "nothing", .reason = {}, .steps = {}});
  } else if (!recall_into(task, machine, problem, {recall, first})) {
    AI_RETURN_IF_ERROR(search_into(task, machine, problem));
  }
  return std::vector<Task>{std::move(task)};
}

}  // namespace ai::kernels
