#include "capture/cuda_capture.hpp"

#include <memory>
#include <string>
#include <utility>

#include "capture/blueprint.hpp"
#include "capture/copy_step.hpp"
#include "capture/cuda_executable.hpp"
#include "capture/reclaim.hpp"
#include "capture/recollection.hpp"
#include "capture/selection.hpp"
#include "core/posix_file.hpp"
#include "cuda/device_info.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

/// Somebody else's backend.
class BorrowedBackend final : public Backend {
 public:
  explicit BorrowedBackend(Backend& backend) noexcept : backend_(backend) {}
  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& recall) override {
    return backend_.lower(run, recall);
  }
  [[nodiscard]] bool can_fuse(const GemmPlan& plan) const override {
    return backend_.can_fuse(plan);
  }
  [[nodiscard]] bool can_fuse_alone(const GemmPlan& plan) const override {
    return backend_.can_fuse_alone(plan);
  }
  [[nodiscard]] std::size_t most_fused() const noexcept override { return backend_.most_fused(); }
  Result<std::vector<Task>> fuse_runs(std::span<const PlanRun> runs, const FuseOptions& options,
                                      const Recall& recall) override {
    return backend_.fuse(runs, options, recall);
  }
  Result<std::string> libraries() override { return backend_.libraries(); }

 private:
  Backend& backend_;
};

std::string tuning_file(const CaptureOptions& options, const TunerSettings& tuner) {
  if (options.tuning == Tuning::Off || !tuner.measure) return {};
  return options.tuning_cache ? *options.tuning_cache : tuning_cache_path();
}

/// Beside the tuning file, be that used or not.
std::string kernel_folder(const CaptureOptions& options) {
  const std::string file = options.tuning_cache ? *options.tuning_cache : tuning_cache_path();
  return file.empty() ? std::string() : folder_of(file) + "/kernels";
}

}  // namespace

Status cuda_available(const cuda::Api& api) {
  return cuda::check_device(api, 0);
}

TunerSettings tuner_settings(const CaptureOptions& options) {
  TunerSettings settings;
  settings.measure = options.tuning != Tuning::Off;
  settings.budget_s = options.tuning_budget_s;
  settings.on_progress = options.on_tuning_progress;
  settings.fuse_layers = options.fuse_layers;
  settings.cooperative = options.cooperative_launches;
  settings.kernel_folder = kernel_folder(options);
  return settings;
}

Result<Executable> capture_with(const cuda::Api& api, const BackendMaker& make_backend,
                                const Program& program, const CaptureOptions& options,
                                const TunerSettings& tuner) {
  const int device = program.device_index();
  reclaim(api);  // the caller's part of it may change the current device
  AI_RETURN_IF_ERROR(cuda::check_device(api, device));
  const cuda::CaptureModeGuard relaxed(api);
  const cuda::DeviceGuard guard(api, device);
  AI_RETURN_IF_ERROR(guard.status());
  AI_RETURN_IF_ERROR(check_pointers(api, program));

  Workshop workshop{Target::CUDA, make_backend,
                    [&api](const CopyStep& copy) { return make_cuda_copy(api, copy); },
                    tuner.kernel_folder, tuner.cooperative};
  const std::unique_ptr<Backend> backend = make_backend();
  Recollection file(api, device, *backend, tuning_file(options, tuner), options.on_tuning_warning);
  Result<Selection> selection =
      select(api, program, *backend, workshop.make_copy, file, options.tuning, tuner);
  if (!selection) return selection.status();
  Blueprint blueprint = draw(program, std::move(workshop), selection->tasks, selection->choices);
  blueprint.retries = options.capture_retries;
  blueprint.order = std::move(selection->order);
  blueprint.run_notes = std::move(selection->run_notes);
  Result<Executable> executable =
      make_cuda_executable(api, std::move(blueprint), selection->report);
  if (!executable) reclaim(api);
  return executable;
}

Result<Executable> capture_with(const cuda::Api& api, Backend& backend, const Program& program,
                                const CaptureOptions& options, const TunerSettings& tuner) {
  return capture_with(
      api, [&backend] { return std::make_unique<BorrowedBackend>(backend); }, program, options,
      tuner);
}

}  // namespace ai::detail
