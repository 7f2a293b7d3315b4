#include "capture/cuda_capture.hpp"

#include <memory>
#include <string>
#include <utility>

#include "capture/copy_step.hpp"
#include "capture/cuda_executable.hpp"
#include "capture/reclaim.hpp"
#include "capture/recorder.hpp"
#include "capture/workspace.hpp"
#include "cuda/device_info.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

std::vector<RecordedStep> recorded_steps(std::span<const LoweredTask> tasks,
                                         std::span<const Choice> choices) {
  std::vector<RecordedStep> steps;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const auto& step : chosen_steps(tasks.subspan(i, 1), choices.subspan(i, 1))) {
      steps.push_back({step.get(), tasks[i].user});
    }
  }
  return steps;
}

/// Steps to an executable: workspace, graph, instance.
Result<Executable> build(const cuda::Api& api, int device, std::span<const LoweredTask> tasks,
                         std::span<const Choice> choices, std::span<const MemoryRange> temporaries,
                         int retries) {
  auto retained = std::make_unique<Retained>();
  retained->steps = chosen_steps(tasks, choices);
  std::vector<const Step*> steps;
  for (const auto& step : retained->steps) steps.push_back(step.get());
  const std::vector<std::vector<int>> dependencies = ai::dependencies(steps);

  const WorkspacePlan workspace = plan_workspace(steps, dependencies, temporaries);
  Result<cuda::DeviceMemory> memory = cuda::DeviceMemory::allocate(api, device, workspace.bytes);
  if (!memory) {
    return Status(memory.status().code(), "the workspace: " + memory.status().message());
  }
  retained->workspace = std::move(*memory);
  retained->addresses = workspace.over(retained->workspace.data());

  Result<Recording> recording =
      record(api, recorded_steps(tasks, choices), dependencies, retained->addresses, retries);
  if (!recording) return recording.status();
  CapturedGraph captured;
  captured.retained = retained.get();
  if (recording->has_switches) {
    captured.owned = std::move(retained);
  } else {
    AI_RETURN_IF_ERROR(retain(api, recording->graph.get(), std::move(retained)));
  }
  Result<cuda::OwnedGraphExec> exec = instantiate(api, recording->graph.get());
  if (!exec) return exec.status();
  captured.exec = std::move(*exec);
  captured.graph = std::move(recording->graph);
  captured.nodes = std::move(recording->handles);

  ExecutableInfo info;
  info.target = Target::CUDA;
  info.workspace_bytes = workspace.bytes;
  info.explain = explain(tasks, choices);
  info.dot = dot(recording->nodes);
  info.nodes = std::move(recording->nodes);
  return Executable(
      std::make_unique<CudaExecutable>(api, device, std::move(captured), std::move(info)));
}

}  // namespace

Status cuda_available(const cuda::Api& api) {
  return cuda::check_device(api, 0);
}

TunerSettings tuner_settings(const CaptureOptions& options) {
  TunerSettings settings;
  settings.measure = options.tuning == Tuning::Measure;
  settings.budget_s = options.tuning_budget_s;
  return settings;
}

Result<Executable> capture_with(const cuda::Api& api, Backend& backend, const Program& program,
                                const CaptureOptions& options, const TunerSettings& tuner) {
  const int device = program.device_index();
  AI_RETURN_IF_ERROR(cuda::check_device(api, device));
  const cuda::CaptureModeGuard relaxed(api);
  const cuda::DeviceGuard guard(api, device);
  AI_RETURN_IF_ERROR(guard.status());
  reclaim(api);
  AI_RETURN_IF_ERROR(check_pointers(api, program));

  Result<std::vector<LoweredTask>> tasks =
      lower(program, backend, Target::CUDA,
            [&api](const CopyStep& copy) { return make_cuda_copy(api, copy); });
  if (!tasks) return tasks.status();
  const std::vector<MemoryRange> temporaries = temporaries_of(program);
  Result<std::vector<Choice>> choices = choose(api, device, *tasks, temporaries, tuner);
  if (!choices) return choices.status();
  Result<Executable> executable =
      build(api, device, *tasks, *choices, temporaries, options.capture_retries);
  if (!executable) reclaim(api);
  return executable;
}

}  // namespace ai::detail
