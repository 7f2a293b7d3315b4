#include <memory>
#include <utility>

#include "capture/choice.hpp"
#include "capture/cuda_executable.hpp"
#include "capture/graph_exec.hpp"

namespace ai::detail {

std::vector<RecordedStep> recorded_steps(const Blueprint& blueprint) {
  std::vector<RecordedStep> steps;
  steps.reserve(blueprint.steps.size());
  for (const BoundStep& bound : blueprint.steps) {
    const BoundItem& item = blueprint.items[bound.item];
    steps.push_back({bound.step, &item.addresses, item.is_user()});
  }
  return steps;
}

Result<CudaParts> build(const cuda::Api& api, Blueprint& blueprint) {
  StepLists dependencies = step_lists(blueprint);
  const WorkspacePlan workspace = plan_workspace(blueprint, dependencies);
  auto retained = std::make_unique<Retained>();
  retained->steps = steps_of(blueprint);
  Result<cuda::DeviceMemory> memory =
      cuda::DeviceMemory::allocate(api, blueprint.device, workspace.bytes);
  if (!memory) {
    return Status(memory.status().code(), "the workspace: " + memory.status().message());
  }
  retained->workspace = std::move(*memory);
  bind(blueprint, workspace, retained->workspace.data());

  Result<cuda::OwnedStream> stream = cuda::make_stream(api);
  if (!stream) return stream.status();
  Result<Recording> recording =
      record(api, stream->get(), recorded_steps(blueprint), dependencies, blueprint.retries);
  if (!recording) return recording.status();
  CudaParts parts;
  CapturedGraph& captured = parts.captured;
  captured.has_switches = recording->has_switches;
  if (captured.has_switches) {
    captured.owned = std::move(retained);
  } else {
    Result<RetainedObject> shared = RetainedObject::make(api, std::move(retained));
    if (!shared) return shared.status();
    AI_RETURN_IF_ERROR(shared->give_to(recording->graph.get()));
    captured.shared = std::move(*shared);
  }
  Result<cuda::OwnedGraphExec> exec = instantiate(api, recording->graph.get(), stream->get());
  if (!exec) return exec.status();
  captured.exec = std::move(*exec);
  captured.graph = std::move(recording->graph);
  captured.nodes = std::move(recording->handles);
  captured.user_nodes = std::move(recording->user_nodes);
  captured.kernels = std::move(recording->kernels);
  captured.dependencies = std::move(dependencies);

  parts.info.target = Target::CUDA;
  parts.info.workspace_bytes = workspace.bytes;
  parts.info.explain = explain(blueprint);
  parts.info.dot = dot(recording->nodes);
  parts.info.nodes = std::move(recording->nodes);
  return parts;
}

Result<Executable> make_cuda_executable(const cuda::Api& api, Blueprint blueprint,
                                        const TuningReport& tuning) {
  Result<CudaParts> parts = build(api, blueprint);
  if (!parts) return parts.status();
  parts->info.tuning = tuning;
  return Executable(std::make_unique<CudaExecutable>(
      api, std::move(blueprint), std::move(parts->captured), std::move(parts->info)));
}

}  // namespace ai::detail
