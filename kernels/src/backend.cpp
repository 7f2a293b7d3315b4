#include "kernels/backend.hpp"

#include <new>
#include <utility>

#include "ai/kernels/backend_factory.hpp"
#include "chain_step.hpp"
#include "cuda/guards.hpp"
#include "fuse.hpp"
#include "kernels/lower.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels {
namespace {

/// The revision of our own candidates. To be raised when one of them gets another name or another
/// meaning, or when there are others to choose from: what won among the old ones is measured anew.
constexpr int kCandidates = 5;

class CudaBackend final : public Backend {
 public:
  CudaBackend(const cuda::Api& api, Machine::LtLoader load_lt, int device,
              cuda::NvrtcLoader load_nvrtc) noexcept
      : machine_(api, load_lt, device), load_nvrtc_(load_nvrtc) {}

  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& recall) override {
    try {
      return lower_all(run, recall);
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::OutOfMemory, "host memory ran out while a plan was lowered");
    }
  }

  [[nodiscard]] bool can_fuse(const GemmPlan& plan) const override {
    return chain::network_of({&plan, 1}, {true}).ok();
  }
  [[nodiscard]] bool can_fuse_alone(const GemmPlan& plan) const override {
    const ForwardProblem problem = forward_problem(plan);
    return !fused::reason(problem).empty() && !lt_fused::reason(problem).empty();
  }
  [[nodiscard]] std::size_t most_fused() const noexcept override { return chain::kMostLayers; }

  Result<std::vector<Task>> fuse_runs(std::span<const PlanRun> runs, const FuseOptions& options,
                                      const Recall& recall) override {
    try {
      return fuse_all(runs, options, recall);
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::OutOfMemory, "host memory ran out while plans were fused");
    }
  }

  Result<std::string> libraries() override {
    try {
      return library_text();
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::OutOfMemory, "host memory ran out while libraries were looked at");
    }
  }

 private:
  Result<std::string> library_text() {
    const cuda::CaptureModeGuard relaxed(machine_.api());
    const cuda::DeviceGuard current(machine_.api(), machine_.device());
    AI_RETURN_IF_ERROR(current.status());
    const Result<std::shared_ptr<const LtContext>> context = machine_.lt();
    std::string text = "no cuBLASLt";  // which programs of our own kernels do without
    if (context) {
      text = "cuBLASLt " + cuda::version_text((*context)->lt());
    } else if (context.status().code() != StatusCode::Unsupported) {
      return context.status();
    }
    return text + ", kernels " + std::to_string(kCandidates);
  }

  Result<std::vector<Task>> lower_all(std::span<const GemmPlan> run, const Recall& recall) {
    const cuda::CaptureModeGuard relaxed(machine_.api());
    const cuda::DeviceGuard current(machine_.api(), machine_.device());
    AI_RETURN_IF_ERROR(current.status());
    std::vector<Task> tasks;
    for (const GemmPlan& plan : run) {
      AI_RETURN_IF_ERROR(check(plan));
      Result<std::vector<Task>> some = plan.direction() == GemmPlan::Direction::Forward
                                           ? lower_forward(machine_, plan, recall, tasks.size())
                                           : lower_backward(machine_, plan, recall, tasks.size());
      AI_RETURN_IF_ERROR(some.status());
      for (Task& task : *some) tasks.push_back(std::move(task));
    }
    return tasks;
  }

  Result<std::vector<Task>> fuse_all(std::span<const PlanRun> runs, const FuseOptions& options,
                                     const Recall& recall) {
    const cuda::CaptureModeGuard relaxed(machine_.api());
    const cuda::DeviceGuard current(machine_.api(), machine_.device());
    AI_RETURN_IF_ERROR(current.status());
    for (const PlanRun& run : runs) {
      for (const GemmPlan& plan : run.plans) AI_RETURN_IF_ERROR(check(plan));
    }
    return fuse_chains(machine_, load_nvrtc_, runs, options, recall);
  }

  [[nodiscard]] Status check(const GemmPlan& plan) const {
    if (plan.device() == Device::CUDA && plan.device_index() == machine_.device()) return {};
    return {StatusCode::DeviceMismatch, "the plan is for " + std::string(to_string(plan.device())) +
                                            " " + std::to_string(plan.device_index()) +
                                            ", expected CUDA " + std::to_string(machine_.device())};
  }

  Machine machine_;
  cuda::NvrtcLoader load_nvrtc_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(const cuda::Api& api, Machine::LtLoader load_lt, int device,
                                      cuda::NvrtcLoader load_nvrtc) {
  return std::make_unique<CudaBackend>(api, load_lt, device, load_nvrtc);
}

std::unique_ptr<Backend> make_cuda_backend(int device) {
  return make_backend(cuda::runtime_api(), &process_lt, device);
}

}  // namespace ai::kernels
