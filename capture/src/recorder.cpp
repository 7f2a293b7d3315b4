#include "capture/recorder.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>

#include "capture/capture_scope.hpp"
#include "capture/enqueue.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

bool writes_something(const Step& step) noexcept {
  for (const MemoryRange& range : step.writes()) {
    if (!range.empty()) return true;
  }
  return false;
}

const char* kind_of(cudaGraphNodeType type) noexcept {
  switch (type) {
    case cudaGraphNodeTypeKernel: return "kernel";
    case cudaGraphNodeTypeMemcpy: return "memcpy";
    case cudaGraphNodeTypeMemset: return "memset";
    case cudaGraphNodeTypeHost: return "host";
    case cudaGraphNodeTypeGraph: return "graph";
    case cudaGraphNodeTypeEmpty: return "empty";
    case cudaGraphNodeTypeWaitEvent: return "event wait";
    case cudaGraphNodeTypeEventRecord: return "event record";
    case cudaGraphNodeTypeExtSemaphoreSignal: return "semaphore signal";
    case cudaGraphNodeTypeExtSemaphoreWait: return "semaphore wait";
    case cudaGraphNodeTypeMemAlloc: return "memory allocation";
    case cudaGraphNodeTypeMemFree: return "memory free";
    case cudaGraphNodeTypeConditional: return "conditional";
    default: return "other";
  }
}

/// Whether such a node can be switched off in an executable (cudaGraphNodeSetEnabled).
bool has_switch(cudaGraphNodeType type) noexcept {
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
         type == cudaGraphNodeTypeMemset;
}

/// One attempt at the whole graph.
class Recorder {
 public:
  Recorder(const cuda::Api& api, cudaStream_t stream, int device, const AddressMap& addresses)
      : api_(api), stream_(stream), device_(device), addresses_(addresses) {}

  Status run(std::span<const RecordedStep> steps, const std::vector<std::vector<int>>& dependencies,
             Recording& recording) {
    Result<cuda::OwnedGraph> graph = cuda::make_graph(api_);
    if (!graph) return graph.status();
    recording = {std::move(*graph), {}, {}};
    std::vector<Leaves> ends(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const int d : dependencies[i]) ends[i].unite(ends[static_cast<std::size_t>(d)]);
      AI_RETURN_IF_ERROR(record_step(steps[i], recording, ends[i]));
    }
    return collect_edges(recording);
  }

  /// Whether the failure was an invalidated capture.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  /// Records `recorded` after `leaves` and leaves in them what comes after it: an empty step
  /// passes its dependencies on.
  Status record_step(const RecordedStep& recorded, Recording& recording, Leaves& leaves) {
    Step& step = *recorded.step;
    CaptureScope scope(api_, stream_);
    Status status = scope.begin(recording.graph, leaves);
    if (!status.ok()) return in_step(step, status);
    status = enqueue(step, addresses_, stream_);
    if (!status.ok()) {
      scope.look();
      // Libraries have codes of their own for a capture that something else has broken.
      if (scope.broken()) status = {StatusCode::CaptureInvalidated, status.message()};
    } else {
      status = scope.leaves(leaves);
      if (status.ok()) status = scope.end();
      if (!status.ok()) status = in_step(step, status);
    }
    broken_ = scope.broken();
    restore_device();
    AI_RETURN_IF_ERROR(std::move(status));
    std::size_t made = 0;
    status = collect_nodes(step, recording, made);
    if (!status.ok()) return in_step(step, status);
    if (recorded.user && made == 0 && writes_something(step)) {
      return {StatusCode::Invalid, "step '" + step.name() +
                                       "' declares memory that it writes, but put nothing on the "
                                       "stream it was given: no replay would do its work"};
    }
    return {};
  }

  /// A user step may have made another device current; the next step must not run there.
  void restore_device() noexcept {
    int current = device_;
    if (api_.get_device(&current) != cudaSuccess ||
        (current != device_ && api_.set_device(device_) != cudaSuccess)) {
      (void)api_.get_last_error();
    }
  }

  Status collect_nodes(const Step& step, Recording& recording, std::size_t& made) {
    std::size_t count = 0;
    AI_CUDA_RETURN_IF_ERROR(api_, graph_get_nodes, recording.graph.get(), nullptr, &count);
    std::vector<cudaGraphNode_t> all(count);
    if (count > index_.size()) {
      AI_CUDA_RETURN_IF_ERROR(api_, graph_get_nodes, recording.graph.get(), all.data(), &count);
    }
    made = count - index_.size();
    std::size_t number = 0;
    for (std::size_t i = 0; made > 0 && i < count; ++i) {
      if (!index_.emplace(all[i], static_cast<int>(index_.size())).second) continue;
      cudaGraphNodeType type = cudaGraphNodeTypeKernel;
      AI_CUDA_RETURN_IF_ERROR(api_, graph_node_get_type, all[i], &type);
      recording.has_switches = recording.has_switches && has_switch(type);
      recording.handles.push_back(all[i]);
      std::string name = step.name();
      if (made > 1) name += "#" + std::to_string(++number);
      recording.nodes.push_back({std::move(name), kind_of(type), {}});
    }
    return {};
  }

  Status collect_edges(Recording& recording) {
    std::size_t count = 0;
    AI_CUDA_RETURN_IF_ERROR(api_, graph_get_edges, recording.graph.get(), nullptr, nullptr, nullptr,
                            &count);
    if (count == 0) return {};
    std::vector<cudaGraphNode_t> from(count);
    std::vector<cudaGraphNode_t> to(count);
    std::vector<cudaGraphEdgeData> data(count);
    AI_CUDA_RETURN_IF_ERROR(api_, graph_get_edges, recording.graph.get(), from.data(), to.data(),
                            data.data(), &count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto a = index_.find(from[i]);
      const auto b = index_.find(to[i]);
      if (a == index_.end() || b == index_.end()) continue;
      recording.nodes[static_cast<std::size_t>(b->second)].depends_on.push_back(a->second);
    }
    for (Node& node : recording.nodes) std::sort(node.depends_on.begin(), node.depends_on.end());
    return {};
  }

  const cuda::Api& api_;
  cudaStream_t stream_;
  int device_;
  const AddressMap& addresses_;
  std::unordered_map<cudaGraphNode_t, int> index_;
  bool broken_ = false;
};

}  // namespace

Result<Recording> record(const cuda::Api& api, std::span<const RecordedStep> steps,
                         const std::vector<std::vector<int>>& dependencies,
                         const AddressMap& addresses, int retries) {
  int device = 0;
  AI_CUDA_RETURN_IF_ERROR(api, get_device, &device);
  Result<cuda::OwnedStream> stream = cuda::make_stream(api);
  if (!stream) return stream.status();
  for (int attempt = 0;; ++attempt) {
    Recorder recorder(api, stream->get(), device, addresses);
    Recording recording;
    Status status = recorder.run(steps, dependencies, recording);
    if (status.ok()) return recording;
    recording.graph.reset();
    (void)api.get_last_error();
    if (!recorder.broken()) return status;
    if (attempt >= retries) {
      return Status(status.code(), status.message() + " (the capture was begun " +
                                       std::to_string(attempt + 1) + " times)");
    }
  }
}

namespace {

Status record_copies(const cuda::Api& api, cudaStream_t stream,
                     std::span<const std::shared_ptr<Step>> steps, const AddressMap& addresses,
                     int copies, cuda::OwnedGraph& graph, bool& broken) {
  CaptureScope scope(api, stream);
  AI_RETURN_IF_ERROR(scope.begin(graph, {}));
  Status status;
  for (int i = 0; i < copies && status.ok(); ++i) {
    for (std::size_t j = 0; j < steps.size() && status.ok(); ++j) {
      status = enqueue(*steps[j], addresses, stream);
    }
  }
  if (status.ok()) {
    status = scope.end();
  } else {
    scope.look();
  }
  broken = scope.broken();
  return status;
}

}  // namespace

Result<cuda::OwnedGraph> record_chain(const cuda::Api& api, cudaStream_t stream,
                                      std::span<const std::shared_ptr<Step>> steps,
                                      const AddressMap& addresses, int copies, int retries) {
  for (int attempt = 0;; ++attempt) {
    Result<cuda::OwnedGraph> graph = cuda::make_graph(api);
    if (!graph) return graph;
    bool broken = false;
    Status status = record_copies(api, stream, steps, addresses, copies, *graph, broken);
    if (status.ok()) return graph;
    if (!broken || attempt >= retries) return status;
  }
}

}  // namespace ai::detail
