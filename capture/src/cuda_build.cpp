#include <cstddef>
#include <memory>
#include <utility>

#include "capture/choice.hpp"
#include "capture/cuda_executable.hpp"
#include "capture/graph_exec.hpp"
#include "cuda/driver_nodes.hpp"
#include "cuda/error.hpp"

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

namespace {

/// Before the graph is launched for the first time, on whatever stream.
Status clear_state(const cuda::Api& api, const WorkspacePlan& workspace, void* base,
                   cudaStream_t stream) {
  if (workspace.state.empty()) return {};
  for (const Placement& state : workspace.state) {
    void* const place = static_cast<std::byte*>(base) + state.offset;
    AI_CUDA_RETURN_IF_ERROR(api, memset_2d_async, place, state.bytes, 0, state.bytes, 1, stream);
  }
  return cuda::to_status(api, api.stream_synchronize(stream), "cudaStreamSynchronize");
}

}  // namespace

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
  void* const base = retained->workspace.data();
  bind(blueprint, workspace, base);

  Result<cuda::OwnedStream> stream = cuda::make_stream(api);
  if (!stream) return stream.status();
  AI_RETURN_IF_ERROR(clear_state(api, workspace, base, stream->get()));
  Result<Recording> recording =
      record(api, stream->get(), recorded_steps(blueprint), dependencies, blueprint.retries);
  if (!recording) return recording.status();
  CudaParts parts;
  CapturedGraph& captured = parts.captured;
  captured.cooperative = std::move(recording->cooperative);
  captured.has_switches =
      recording->has_switches &&
      (captured.cooperative.empty() || cuda::driver_nodes(api).exec_set_params != nullptr);
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
