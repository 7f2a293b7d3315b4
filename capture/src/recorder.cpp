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

/// Whether a node of that type can be switched off in an executable (cudaGraphNodeSetEnabled).
bool has_switch(cudaGraphNodeType type) noexcept {
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy ||
         type == cudaGraphNodeTypeMemset;
}

Result<bool> is_cooperative(const cuda::Api& api, cudaGraphNode_t node,
                            cudaGraphNodeType type) noexcept {
  if (type != cudaGraphNodeTypeKernel) return false;
  cudaLaunchAttributeValue value = {};
  AI_CUDA_RETURN_IF_ERROR(api, graph_kernel_node_get_attribute, node,
                          cudaLaunchAttributeCooperative, &value);
  return value.cooperative != 0;
}

/// One attempt at the whole graph.
class Recorder {
 public:
  Recorder(const cuda::Api& api, cudaStream_t stream, std::span<const RecordedStep> steps,
           const std::vector<std::vector<int>>& dependencies, Describe describe)
      : api_(api),
        stream_(stream),
        steps_(steps),
        dependencies_(dependencies),
        describe_(describe == Describe::Yes),
        kernels_(describe == Describe::Kernels) {}

  Status run(Recording& recording) {
    AI_CUDA_RETURN_IF_ERROR(api_, get_device, &device_);
    Result<cuda::OwnedGraph> graph = cuda::make_graph(api_);
    if (!graph) return graph.status();
    recording = {std::move(*graph), {}, {}, {}, {}};
    ends_.assign(steps_.size(), {});
    find_chains();
    for (std::size_t i = 0; i < steps_.size();) {
      std::size_t end = i + 1;
      while (end < steps_.size() && continues_[end]) ++end;
      AI_RETURN_IF_ERROR(record_chain(i, end, recording));
      i = end;
    }
    if (kernels_) return collect_kernels(recording);
    return describe_ ? collect_edges(recording) : Status();
  }

  /// Whether the failure was an invalidated capture.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  /// Each step is a capture of its own, so that what it made and how it left the capture are known
  /// behind it. Where nobody asks, the library's own steps share one with the step before them if
  /// that is all they wait for.
  void find_chains() {
    continues_.assign(steps_.size(), false);
    is_waited_for_.assign(steps_.size(), false);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const std::vector<int>& before = dependencies_[i];
      continues_[i] = !describe_ && before.size() == 1 && before[0] + 1 == static_cast<int>(i) &&
                      !steps_[i].user && !steps_[i - 1].user;
      if (continues_[i]) continue;
      for (const int d : before) is_waited_for_[static_cast<std::size_t>(d)] = true;
    }
  }

  /// Records the steps [first, end) as one capture.
  Status record_chain(std::size_t first, std::size_t end, Recording& recording) {
    std::size_t before = 0;
    if (steps_[first].user) AI_RETURN_IF_ERROR(count_nodes(recording, before));
    Leaves after;
    for (const int d : dependencies_[first]) after.unite(ends_[static_cast<std::size_t>(d)]);
    CaptureScope scope(api_, stream_);
    Status status = scope.begin(recording.graph, after);
    if (!status.ok()) return in_step(*steps_[first].step, status);
    for (std::size_t i = first; i < end && status.ok(); ++i) {
      status = record_step(i, scope);
    }
    if (status.ok()) {
      status = scope.end();
      if (!status.ok()) status = in_step(*steps_[end - 1].step, status);
    }
    broken_ = scope.broken();
    if (describe_ || steps_[first].user) restore_device();
    AI_RETURN_IF_ERROR(std::move(status));
    if (describe_) {
      const Step& step = *steps_[first].step;
      status = collect_nodes(steps_[first], recording);
      if (!status.ok()) return in_step(step, status);
    }
    return steps_[first].user ? check_user(first, before, recording) : Status();
  }

  /// Leaves in ends_ what comes after the step: an empty one passes its dependencies on.
  Status record_step(std::size_t i, CaptureScope& scope) {
    const RecordedStep& recorded = steps_[i];
    Status status = enqueue(*recorded.step, *recorded.addresses, stream_);
    if (!status.ok()) {
      scope.look();
      // Libraries have codes of their own for a capture that something else has broken.
      if (scope.broken()) return {StatusCode::CaptureInvalidated, status.message()};
      return status;
    }
    if (!describe_ && !kernels_ && !recorded.user && !is_waited_for_[i]) return {};
    status = scope.leaves(ends_[i]);
    return status.ok() ? status : in_step(*recorded.step, status);
  }

  Status check_user(std::size_t i, std::size_t before, Recording& recording) {
    const Step& step = *steps_[i].step;
    std::size_t count = 0;
    Status status = count_nodes(recording, count);
    if (!status.ok()) return in_step(step, status);
    recording.user_nodes.push_back(count - before);
    if (count != before || !writes_something(step)) return {};
    return {StatusCode::Invalid, "step '" + step.name() +
                                     "' declares memory that it writes, but put nothing on the "
                                     "stream it was given: no replay would do its work"};
  }

  Status count_nodes(const Recording& recording, std::size_t& count) {
    AI_CUDA_RETURN_IF_ERROR(api_, graph_get_nodes, recording.graph.get(), nullptr, &count);
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

  Status collect_nodes(const RecordedStep& recorded, Recording& recording) {
    std::size_t count = 0;
    AI_RETURN_IF_ERROR(count_nodes(recording, count));
    std::vector<cudaGraphNode_t> all(count);
    if (count > index_.size()) {
      AI_CUDA_RETURN_IF_ERROR(api_, graph_get_nodes, recording.graph.get(), all.data(), &count);
    }
    const std::size_t made = count - index_.size();
    std::size_t number = 0;
    StepKernel kernel{!recorded.user && made <= 1, nullptr};
    for (std::size_t i = 0; made > 0 && i < count; ++i) {
      if (!index_.emplace(all[i], static_cast<int>(index_.size())).second) continue;
      cudaGraphNodeType type = cudaGraphNodeTypeKernel;
      AI_CUDA_RETURN_IF_ERROR(api_, graph_node_get_type, all[i], &type);
      const Result<bool> cooperative = is_cooperative(api_, all[i], type);
      AI_RETURN_IF_ERROR(cooperative.status());
      if (!*cooperative) {
        recording.has_switches = recording.has_switches && has_switch(type);
      } else if (kernel.alone && !recorded.step->state().empty()) {
        recording.cooperative.push_back(all[i]);
      } else {
        recording.has_switches = false;
      }
      recording.handles.push_back(all[i]);
      if (made == 1) kernel.node = all[i];
      kernel.alone = kernel.alone && type == cudaGraphNodeTypeKernel;
      std::string name = recorded.step->name();
      if (made > 1) name += "#" + std::to_string(++number);
      recording.nodes.push_back({std::move(name), kind_of(type), {}});
    }
    recording.kernels.push_back(kernel);
    return {};
  }

  /// Of one chain. Each step that has moved the end of it made a node at least, so if there are as
  /// many nodes as such steps, it made no more.
  Status collect_kernels(Recording& recording) {
    std::size_t count = 0;
    AI_RETURN_IF_ERROR(count_nodes(recording, count));
    recording.kernels.resize(steps_.size());
    cudaGraphNode_t last = nullptr;
    bool plain = true;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const std::vector<cudaGraphNode_t>& end = ends_[i].nodes;
      plain = plain && end.size() <= 1;
      const cudaGraphNode_t node = end.empty() ? nullptr : end.front();
      if (node == last) continue;
      plain = plain && node != nullptr && count-- > 0;
      recording.kernels[i].node = node;
      last = node;
    }
    for (StepKernel& kernel : recording.kernels) kernel.alone = plain && count == 0;
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
  std::span<const RecordedStep> steps_;
  const std::vector<std::vector<int>>& dependencies_;
  bool describe_;
  bool kernels_;
  int device_ = 0;
  std::vector<bool> continues_;      // for each step: it shares the capture of the one before
  std::vector<bool> is_waited_for_;  // by one that begins a capture
  std::vector<Leaves> ends_;
  std::unordered_map<cudaGraphNode_t, int> index_;
  bool broken_ = false;
};

}  // namespace

Result<Recording> record(const cuda::Api& api, cudaStream_t stream,
                         std::span<const RecordedStep> steps,
                         const std::vector<std::vector<int>>& dependencies, int retries,
                         Describe describe) {
  for (int attempt = 0;; ++attempt) {
    Recorder recorder(api, stream, steps, dependencies, describe);
    Recording recording;
    Status status = recorder.run(recording);
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
