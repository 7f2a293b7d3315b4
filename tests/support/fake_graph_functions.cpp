#include <algorithm>
#include <cstddef>
#include <utility>

#include "support/fake_api.hpp"

namespace ai::test {

/// The table's functions of captures and graphs.
struct FakeGraphs {
  static FakeCuda& fake() { return *FakeCuda::current_; }

  static cudaError_t thread_exchange_stream_capture_mode(cudaStreamCaptureMode* mode) {
    if (const cudaError_t e = fake().enter("thread_exchange_stream_capture_mode")) return e;
    std::swap(*mode, fake().mode);
    return cudaSuccess;
  }
  static cudaError_t stream_begin_capture_to_graph(cudaStream_t stream, cudaGraph_t graph,
                                                   const cudaGraphNode_t* leaves,
                                                   const cudaGraphEdgeData*, std::size_t count,
                                                   cudaStreamCaptureMode mode) {
    if (const cudaError_t e = fake().enter("stream_begin_capture_to_graph")) return e;
    FakeCuda::StreamState& s = fake().state(stream);
    if (s.status != cudaStreamCaptureStatusNone) return fake().error(cudaErrorIllegalState);
    if (mode != cudaStreamCaptureModeThreadLocal || s.flags != cudaStreamNonBlocking) {
      fake().broken_rules_.emplace_back("a capture that other threads can feel");
    }
    s.status = cudaStreamCaptureStatusActive;
    s.graph = reinterpret_cast<FakeCuda::Graph*>(graph);
    s.leaves.clear();
    for (std::size_t i = 0; i < count; ++i) {
      s.leaves.push_back(reinterpret_cast<FakeCuda::Node*>(leaves[i]));
    }
    return cudaSuccess;
  }
  static cudaError_t stream_get_capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                             unsigned long long*, cudaGraph_t* graph,
                                             const cudaGraphNode_t** nodes,
                                             const cudaGraphEdgeData** edges, std::size_t* count) {
    if (const cudaError_t e = fake().enter("stream_get_capture_info")) return e;
    FakeCuda::StreamState& s = fake().state(stream);
    *status = s.status;
    if (s.status != cudaStreamCaptureStatusActive) return cudaSuccess;
    s.info_nodes.clear();
    for (FakeCuda::Node* leaf : s.leaves) {
      s.info_nodes.push_back(reinterpret_cast<cudaGraphNode_t>(leaf));
    }
    s.info_edges.assign(s.leaves.size(), cudaGraphEdgeData{});
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(s.graph);
    if (nodes != nullptr) *nodes = s.info_nodes.data();
    if (edges != nullptr) *edges = s.info_edges.data();
    if (count != nullptr) *count = s.leaves.size();
    return cudaSuccess;
  }
  static cudaError_t stream_end_capture(cudaStream_t stream, cudaGraph_t* graph) {
    const cudaError_t e = fake().enter("stream_end_capture");
    FakeCuda::StreamState& s = fake().state(stream);
    *graph = nullptr;
    if (s.status == cudaStreamCaptureStatusNone) {
      fake().broken_rules_.emplace_back("a capture was ended that was not open");
      return fake().error(cudaErrorIllegalState);
    }
    const bool intact = s.status == cudaStreamCaptureStatusActive;
    if (intact && e == cudaSuccess) {
      *graph = reinterpret_cast<cudaGraph_t>(s.graph);
    } else {
      fake().graphs_.erase(s.graph);  // as CUDA does away with the graph of a broken capture
    }
    s.status = cudaStreamCaptureStatusNone;
    s.graph = nullptr;
    s.leaves.clear();
    std::fill(s.info_nodes.begin(), s.info_nodes.end(), nullptr);
    if (e != cudaSuccess) return e;
    return intact ? cudaSuccess : fake().error(cudaErrorStreamCaptureInvalidated);
  }

  static cudaError_t graph_create(cudaGraph_t* out, unsigned) {
    if (const cudaError_t e = fake().enter("graph_create")) return e;
    auto made = std::make_unique<FakeCuda::Graph>();
    auto* const handle = made.get();
    fake().graphs_[handle] = std::move(made);
    *out = reinterpret_cast<cudaGraph_t>(handle);
    return cudaSuccess;
  }
  static cudaError_t graph_destroy(cudaGraph_t graph) {
    const cudaError_t e = fake().enter("graph_destroy");
    auto* const handle = reinterpret_cast<FakeCuda::Graph*>(graph);
    for (const auto& [stream, owner] : fake().streams_) {
      if (stream->graph == handle) fake().broken_rules_.emplace_back("graph died in capture");
    }
    if (!fake().graphs_.contains(handle)) {
      fake().broken_rules_.emplace_back("a graph was destroyed twice");
      return e;
    }
    fake().drop_all(handle->retained);
    fake().graphs_.erase(handle);
    return e;
  }
  static cudaError_t graph_get_nodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                     std::size_t* count) {
    if (const cudaError_t e = fake().enter("graph_get_nodes")) return e;
    const auto& all = reinterpret_cast<FakeCuda::Graph*>(graph)->nodes;
    if (nodes != nullptr) {
      for (std::size_t i = 0; i < std::min(*count, all.size()); ++i) {
        nodes[i] = reinterpret_cast<cudaGraphNode_t>(all[i].get());
      }
    }
    *count = all.size();
    return cudaSuccess;
  }
  static cudaError_t graph_get_edges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                     cudaGraphEdgeData*, std::size_t* count) {
    if (const cudaError_t e = fake().enter("graph_get_edges")) return e;
    const auto& all = reinterpret_cast<FakeCuda::Graph*>(graph)->edges;
    for (std::size_t i = 0; from != nullptr && i < std::min(*count, all.size()); ++i) {
      from[i] = reinterpret_cast<cudaGraphNode_t>(all[i].first);
      to[i] = reinterpret_cast<cudaGraphNode_t>(all[i].second);
    }
    *count = all.size();
    return cudaSuccess;
  }
  static cudaError_t graph_node_get_type(cudaGraphNode_t node, cudaGraphNodeType* out) {
    if (const cudaError_t e = fake().enter("graph_node_get_type")) return e;
    *out = reinterpret_cast<FakeCuda::Node*>(node)->type;
    return cudaSuccess;
  }
  static cudaError_t graph_kernel_node_get_attribute(cudaGraphNode_t node,
                                                     cudaLaunchAttributeID attribute,
                                                     cudaLaunchAttributeValue* out) {
    if (const cudaError_t e = fake().enter("graph_kernel_node_get_attribute")) return e;
    const auto* const kernel = reinterpret_cast<FakeCuda::Node*>(node);
    if (kernel->type != cudaGraphNodeTypeKernel) return fake().error(cudaErrorInvalidValue);
    if (attribute == cudaLaunchAttributeCooperative) out->cooperative = kernel->cooperative;
    return cudaSuccess;
  }
  static cudaError_t graph_instantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                       unsigned long long) {
    if (const cudaError_t e = fake().enter("graph_instantiate")) return e;
    auto* const source = reinterpret_cast<FakeCuda::Graph*>(graph);
    auto made = std::make_unique<FakeCuda::Exec>();
    made->source = source;
    made->nodes = source->nodes;
    made->bodies = FakeCuda::copies_of(*source);
    made->edges = FakeCuda::edges_of(*source);
    made->retained = source->retained;
    for (FakeCuda::UserObject* object : made->retained) object->references += 1;
    auto* const handle = made.get();
    fake().execs_[handle] = std::move(made);
    *out = reinterpret_cast<cudaGraphExec_t>(handle);
    return cudaSuccess;
  }
  // A failing one has changed the first node: what else it leaves behind, CUDA does not say.
  static cudaError_t graph_exec_update(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo*) {
    const cudaError_t e = fake().enter("graph_exec_update");
    auto* const handle = reinterpret_cast<FakeCuda::Exec*>(exec);
    auto* const source = reinterpret_cast<FakeCuda::Graph*>(graph);
    if (handle == nullptr) return fake().error(cudaErrorInvalidValue);
    if (!fake().graphs_.contains(source)) {
      fake().broken_rules_.emplace_back("an update from a graph that does not exist");
      return fake().error(cudaErrorInvalidValue);
    }
    bool same = handle->nodes.size() == source->nodes.size() &&
                handle->edges == FakeCuda::edges_of(*source);
    for (std::size_t i = 0; same && i < source->nodes.size(); ++i) {
      same = handle->nodes[i]->type == source->nodes[i]->type;
    }
    if (fake().refusals > 0) {
      --fake().refusals;
      same = false;
    }
    if (e != cudaSuccess || !same) {
      if (!handle->bodies.empty() && !source->nodes.empty()) {
        handle->bodies[0] = FakeCuda::copies_of(*source)[0];
      }
      return e != cudaSuccess ? e : fake().error(cudaErrorGraphExecUpdateFailure);
    }
    handle->bodies = FakeCuda::copies_of(*source);
    for (FakeCuda::UserObject* object : source->retained) object->references += 1;
    std::vector<FakeCuda::UserObject*> before = std::exchange(handle->retained, source->retained);
    if (handle->in_flight) {
      fake().in_flight_.push_back(std::move(before));
    } else {
      fake().drop_all(before);
    }
    return cudaSuccess;
  }
  static cudaError_t graph_upload(cudaGraphExec_t, cudaStream_t) {
    return fake().enter("graph_upload");
  }
  static cudaError_t graph_launch(cudaGraphExec_t exec, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("graph_launch")) return e;
    return fake().replay(exec, stream);
  }
  static cudaError_t graph_node_set_enabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            unsigned enabled) {
    if (const cudaError_t e = fake().enter("graph_node_set_enabled")) return e;
    auto* const handle = reinterpret_cast<FakeCuda::Node*>(node);
    const bool has_switch = handle->type == cudaGraphNodeTypeKernel ||
                            handle->type == cudaGraphNodeTypeMemcpy ||
                            handle->type == cudaGraphNodeTypeMemset;
    if (!has_switch) return fake().error(cudaErrorInvalidValue);
    auto* const executable = reinterpret_cast<FakeCuda::Exec*>(exec);
    if (executable == nullptr) return fake().error(cudaErrorInvalidValue);
    if (handle->cooperative) {
      fake().broken_rules_.emplace_back("a cooperative kernel was switched off");
    }
    if (!fake().graphs_.contains(executable->source)) {
      fake().broken_rules_.emplace_back("a node of a graph that does not exist was used");
    }
    auto& off = executable->off;
    if (enabled != 0) off.erase(handle);
    if (enabled == 0) off.insert(handle);
    return cudaSuccess;
  }
  static cudaError_t launch_host_func(cudaStream_t stream, cudaHostFn_t function, void* data) {
    if (const cudaError_t e = fake().enter("launch_host_func")) return e;
    (void)fake().state(stream);
    if (fake().holding_) {
      fake().held_.emplace_back([function, data] { function(data); });
    } else {
      fake().call_back([&] { function(data); });
    }
    return cudaSuccess;
  }
  static cudaError_t graph_exec_destroy(cudaGraphExec_t exec) {
    const cudaError_t e = fake().enter("graph_exec_destroy");
    auto* const handle = reinterpret_cast<FakeCuda::Exec*>(exec);
    if (!fake().execs_.contains(handle)) {
      fake().broken_rules_.emplace_back("an executable was destroyed twice");
      return e;
    }
    std::vector<FakeCuda::UserObject*> retained = std::move(handle->retained);
    const bool in_flight = handle->in_flight;
    fake().execs_.erase(handle);
    if (in_flight) {
      fake().in_flight_.push_back(std::move(retained));
    } else {
      fake().drop_all(retained);
    }
    return e;
  }
  static cudaError_t user_object_create(cudaUserObject_t* out, void* data, cudaHostFn_t destroy,
                                        unsigned references, unsigned flags) {
    if (const cudaError_t e = fake().enter("user_object_create")) return e;
    if (flags != cudaUserObjectNoDestructorSync) return fake().error(cudaErrorInvalidValue);
    auto made =
        std::make_unique<FakeCuda::UserObject>(FakeCuda::UserObject{data, destroy, references});
    auto* const handle = made.get();
    fake().objects_[handle] = std::move(made);
    *out = reinterpret_cast<cudaUserObject_t>(handle);
    return cudaSuccess;
  }
  static cudaError_t user_object_release(cudaUserObject_t object, unsigned count) {
    const cudaError_t e = fake().enter("user_object_release");
    fake().drop(reinterpret_cast<FakeCuda::UserObject*>(object), count);
    return e;
  }
  static cudaError_t graph_retain_user_object(cudaGraph_t graph, cudaUserObject_t object,
                                              unsigned count, unsigned flags) {
    if (const cudaError_t e = fake().enter("graph_retain_user_object")) return e;
    auto* const handle = reinterpret_cast<FakeCuda::UserObject*>(object);
    if ((flags & cudaGraphUserObjectMove) == 0) handle->references += count;
    reinterpret_cast<FakeCuda::Graph*>(graph)->retained.push_back(handle);
    return cudaSuccess;
  }
  static cudaError_t launch_kernel_ex(const cudaLaunchConfig_t* config, const void*, void**) {
    if (const cudaError_t e = fake().enter("launch_kernel_ex")) return e;
    return fake().work(config->stream, cudaGraphNodeTypeKernel, 0, {});
  }
  static cudaError_t func_get_attributes(cudaFuncAttributes*, const void*) {
    return fake().enter("func_get_attributes");
  }
};

void fill_graph_functions(cuda::Api& table);

void fill_graph_functions(cuda::Api& table) {
#define GE_FAKE(name) table.name = FakeGraphs::name
  GE_FAKE(thread_exchange_stream_capture_mode);
  GE_FAKE(stream_begin_capture_to_graph);
  GE_FAKE(stream_get_capture_info);
  GE_FAKE(stream_end_capture);
  GE_FAKE(graph_create);
  GE_FAKE(graph_destroy);
  GE_FAKE(graph_get_nodes);
  GE_FAKE(graph_get_edges);
  GE_FAKE(graph_node_get_type);
  GE_FAKE(graph_kernel_node_get_attribute);
  GE_FAKE(graph_instantiate);
  GE_FAKE(graph_exec_update);
  GE_FAKE(graph_upload);
  GE_FAKE(graph_launch);
  GE_FAKE(graph_node_set_enabled);
  GE_FAKE(launch_host_func);
  GE_FAKE(graph_exec_destroy);
  GE_FAKE(user_object_create);
  GE_FAKE(user_object_release);
  GE_FAKE(graph_retain_user_object);
  GE_FAKE(launch_kernel_ex);
  GE_FAKE(func_get_attributes);
#undef GE_FAKE
}

}  // namespace ai::test
