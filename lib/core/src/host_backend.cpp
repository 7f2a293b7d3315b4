#include <new>

#include "ai/backend.hpp"
#include "core/host_steps.hpp"
#include "core/text.hpp"

namespace ai {
namespace {

Task task_of(const GemmPlan& plan, std::vector<std::shared_ptr<Step>> steps) {
  const bool is_forward = plan.direction() == GemmPlan::Direction::Forward;
  Task task;
  task.name =
      text(is_forward ? "forward Y[" : "backward gY[", plan.m(), ",", plan.n(), "] K=", plan.k());
  task.candidates.push_back({"host", {}, true, std::move(steps)});
  return task;
}

class HostBackend final : public Backend {
 public:
  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& /*recall*/) override try {
    std::vector<Task> tasks;
    for (const GemmPlan& plan : run) {
      if (plan.device() != Device::CPU) {
        return Status(StatusCode::DeviceMismatch,
                      text("A is on ", to_string(plan.device()), ":", plan.device_index(),
                           ", expected CPU because the target is the host"));
      }
      const bool is_forward = plan.direction() == GemmPlan::Direction::Forward;
      auto steps = is_forward ? host::forward_steps(plan) : host::backward_steps(plan);
      if (!steps.empty()) tasks.push_back(task_of(plan, std::move(steps)));
    }
    return tasks;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::OutOfMemory, {});
  }
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() {
  return std::make_unique<HostBackend>();
}

}  // namespace ai
