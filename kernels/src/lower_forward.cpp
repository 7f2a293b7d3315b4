#include <algorithm>
#include <utility>

#include "kernels/lower.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels {

Result<std::vector<Task>> lower_forward(Machine& machine, const GemmPlan& plan) {
  const ForwardProblem problem = forward_problem(plan);
  Task task;
  task.name = "forward Y" + shape_text(problem.product.d) + " K=" + std::to_string(plan.k());
  if (plan.m() == 0 || plan.n() == 0) {
    task.candidates.push_back({.name = "nothing", .reason = {}, .steps = {}});
    return std::vector<Task>{std::move(task)};
  }
  for (const ForwardFamily& family : kForwardFamilies) {
    if (std::string reason = family.reason(problem); !reason.empty()) {
      task.candidates.push_back({.name = family.name, .reason = std::move(reason), .steps = {}});
    } else {
      AI_RETURN_IF_ERROR(family.append(machine, problem, task.candidates));
    }
  }
  // The last candidate is the fallback, so those that do not apply move ahead of the others.
  std::stable_partition(task.candidates.begin(), task.candidates.end(),
                        [](const Candidate& candidate) { return !candidate.applicable(); });
  return std::vector<Task>{std::move(task)};
}

}  // namespace ai::kernels
