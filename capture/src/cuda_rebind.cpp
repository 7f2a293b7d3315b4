#include <string>
#include <utility>

#include "capture/cuda_capture.hpp"
#include "capture/cuda_executable.hpp"
#include "capture/rebinding.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {

Result<Moves> CudaExecutable::resolve_here(std::span<const Rebinding> moves) const {
  Result<Moves> resolved = resolve(blueprint_, moves);
  if (!resolved) return resolved;
  for (const MovedOperand& moved : resolved->operands) {
    const BoundOperand& operand = blueprint_.operands[moved.index];
    Tensor tensor = operand.tensor;
    tensor.data = moved.to;
    const Status status = check_pointer(api_, tensor, device_);
    if (status.ok()) continue;
    return Status(status.code(), operand.name + " of " + operand.item + " " + status.message());
  }
  return resolved;
}

Status CudaExecutable::rebind(std::span<const Rebinding> moves) {
  Status status = rebind_here(moves);
  reclaim(api_);
  return status;
}

Status CudaExecutable::rebind_here(std::span<const Rebinding> moves) {
  const cuda::CaptureModeGuard relaxed(api_);
  const cuda::DeviceGuard guard(api_, device_);
  AI_RETURN_IF_ERROR(guard.status());
  Result<Moves> resolved = resolve_here(moves);
  AI_RETURN_IF_ERROR(resolved.status());
  if (!resolved->in_place) return replace(*resolved);
  if (can_patch(*resolved)) {
    const Result<Patch> patched = patch(*resolved);
    AI_RETURN_IF_ERROR(patched.status());
    if (*patched == Patch::Refused) return replace_refused(*resolved);
    if (*patched == Patch::Done) {
      apply(blueprint_, *resolved);
      return {};
    }
  }
  Result<cuda::OwnedGraph> graph = record_moved(*resolved);
  AI_RETURN_IF_ERROR(graph.status());
  if (!*graph) return replace(*resolved);
  cudaGraphExecUpdateResultInfo why{};
  if (api_.graph_exec_update(captured_.exec.get(), graph->get(), &why) == cudaSuccess) {
    captured_.updated = std::move(*graph);
    captured_.kernels.clear();
    apply(blueprint_, *resolved);
    return {};
  }
  (void)api_.get_last_error();
  return replace_refused(*resolved);
}

Result<cudaStream_t> CudaExecutable::private_stream() noexcept {
  if (!private_stream_) {
    Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
    AI_RETURN_IF_ERROR(stream.status());
    private_stream_ = std::move(*stream);
  }
  return private_stream_.get();
}

// Null where the caller's steps made other nodes than before.
Result<cuda::OwnedGraph> CudaExecutable::record_moved(const Moves& moves) {
  const Result<cudaStream_t> stream = private_stream();
  AI_RETURN_IF_ERROR(stream.status());
  std::vector<RecordedStep> steps = recorded_steps(blueprint_);
  std::size_t step = 0;
  for (const MovedItem& moved : moves.items) {
    while (step < steps.size() && blueprint_.steps[step].item < moved.index) ++step;
    for (; step < steps.size() && blueprint_.steps[step].item == moved.index; ++step) {
      steps[step].addresses = &moved.addresses;
    }
  }
  Result<Recording> recording =
      record(api_, *stream, steps, captured_.dependencies, blueprint_.retries, Describe::No);
  AI_RETURN_IF_ERROR(recording.status());
  if (recording->user_nodes != captured_.user_nodes) return cuda::OwnedGraph();
  if (captured_.shared) AI_RETURN_IF_ERROR(captured_.shared.give_to(recording->graph.get()));
  return std::move(recording->graph);
}

// The old parts stay as they are until the new ones are complete.
Status CudaExecutable::replace(const Moves& moves) {
  Result<Blueprint> next = rebuilt(blueprint_, moves, false);
  AI_RETURN_IF_ERROR(next.status());
  Result<CudaParts> parts = build(api_, *next);
  if (parts.ok()) {
    Status status = finish();
    if (status.ok()) {
      blueprint_ = std::move(*next);
      parts->captured.retained().held = std::move(captured_.retained().held);
      std::swap(captured_, parts->captured);
      parts->info.tuning = info_.tuning;
      std::swap(info_, parts->info);
      parts->captured.exec.reset();
    } else {
      parts = std::move(status);
    }
  }
  return parts.status();
}

/// Waits until nothing of this executable is running.
Status CudaExecutable::finish() {
  if (enqueued_) {
    AI_CUDA_RETURN_IF_ERROR(api_, event_synchronize, enqueued_.get());
    enqueued_.reset();
  }
  if (!running_) return {};
  if (!captured_.has_switches || !captured_.cooperative.empty()) {
    return {
        StatusCode::Invalid,
        "the graph has to be instantiated anew, a launch of it may still be running, and with "
        "a node that cannot be switched off (a host function, a cooperative kernel) there is no "
        "way to tell: wait() "
        "before rebind()"};
  }
  const Result<cudaStream_t> stream = private_stream();
  AI_RETURN_IF_ERROR(stream.status());
  Status status = fence(*stream);
  if (status.ok()) {
    status = cuda::to_status(api_, api_.stream_synchronize(*stream), "cudaStreamSynchronize");
  }
  if (status.ok()) {
    running_ = false;
    launched_ = false;
  } else {
    switch_on();
  }
  return status;
}

// An executable whose nodes stay off would do nothing and say nothing: better one that cannot be
// launched.
void CudaExecutable::switch_on() noexcept {
  bool on = true;
  for (cudaGraphNode_t node : captured_.nodes) {
    on = api_.graph_node_set_enabled(captured_.exec.get(), node, 1) == cudaSuccess && on;
  }
  if (on) return;
  (void)api_.get_last_error();
  captured_.exec.reset();
}

bool CudaExecutable::restore() noexcept {
  if (!captured_.exec) return false;
  if (captured_.half_patched) {
    captured_.exec.reset();
    return false;
  }
  const cuda::OwnedGraph& graph = captured_.updated ? captured_.updated : captured_.graph;
  cudaGraphExecUpdateResultInfo result{};
  if (api_.graph_exec_update(captured_.exec.get(), graph.get(), &result) == cudaSuccess)
    return true;
  (void)api_.get_last_error();
  captured_.exec.reset();
  return false;
}

// A refused update may have changed some of the nodes.
Status CudaExecutable::replace_refused(const Moves& moves) {
  Status status;
  try {
    status = replace(moves);
  } catch (...) {
    (void)restore();
    throw;
  }
  if (status.ok()) return status;
  const char* const left = restore() ? "the executable works on over its old pointers"
                                     : "the executable could not be put back and works no more";
  return {status.code(),
          "CUDA refused to update the graph, and it could not be instantiated anew; " +
              std::string(left) + ": " + status.message()};
}

Result<Executable> CudaExecutable::clone(std::span<const Rebinding> moves) const {
  const cuda::CaptureModeGuard relaxed(api_);
  const cuda::DeviceGuard guard(api_, device_);
  AI_RETURN_IF_ERROR(guard.status());
  const Result<Moves> resolved = resolve_here(moves);
  AI_RETURN_IF_ERROR(resolved.status());
  Result<Blueprint> next = rebuilt(blueprint_, *resolved, true);
  AI_RETURN_IF_ERROR(next.status());
  Result<Executable> made = make_cuda_executable(api_, std::move(*next), {});
  if (!made) reclaim(api_);
  return made;
}

}  // namespace ai::detail
