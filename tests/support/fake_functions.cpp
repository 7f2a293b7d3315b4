#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "support/fake_api.hpp"

namespace ai::test {

/// The table's functions.
struct FakeFunctions {
  static FakeCuda& fake() { return *FakeCuda::current_; }

  static cudaError_t get_last_error() {
    fake().calls_.emplace_back("get_last_error");
    return std::exchange(fake().last_error, cudaSuccess);
  }
  static const char* get_error_name(cudaError_t code) {
    switch (code) {
      case cudaSuccess: return "cudaSuccess";
      case cudaErrorUnknown: return "cudaErrorUnknown";
      case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
      default: return "cudaErrorOfTheFake";
    }
  }
  static const char* get_error_string(cudaError_t) { return "an error of the fake"; }
  static cudaError_t version(int* out) {
    *out = 13000;
    return cudaSuccess;
  }
  static cudaError_t get_device_count(int* out) {
    if (const cudaError_t e = fake().enter("get_device_count")) return e;
    *out = fake().device_count;
    return *out > 0 ? cudaSuccess : fake().error(cudaErrorNoDevice);
  }
  static cudaError_t get_device(int* out) {
    if (const cudaError_t e = fake().enter("get_device")) return e;
    *out = fake().device;
    return cudaSuccess;
  }
  static cudaError_t set_device(int device) {
    if (const cudaError_t e = fake().enter("set_device")) return e;
    if (device < 0 || device >= fake().device_count) {
      return fake().error(cudaErrorInvalidDevice);
    }
    fake().device = device;
    return cudaSuccess;
  }
  static cudaError_t device_get_attribute(int* out, cudaDeviceAttr, int) {
    if (const cudaError_t e = fake().enter("device_get_attribute")) return e;
    *out = 0;
    return cudaSuccess;
  }
  static cudaError_t pointer_get_attributes(cudaPointerAttributes* out, const void* data) {
    if (const cudaError_t e = fake().enter("pointer_get_attributes")) return e;
    *out = {};
    const auto* const address = static_cast<const std::byte*>(data);
    for (const auto& [base, block] : fake().blocks_) {
      const auto* const begin = static_cast<const std::byte*>(base);
      if (address >= begin && address < begin + block.bytes) {
        out->type = block.type;
        out->device = block.device;
      }
    }
    return cudaSuccess;
  }

  static cudaError_t mem_pool_create(cudaMemPool_t* out, const cudaMemPoolProps*) {
    if (const cudaError_t e = fake().enter("mem_pool_create")) return e;
    void* const pool = new char;
    fake().pools_.insert(pool);
    *out = static_cast<cudaMemPool_t>(pool);
    return cudaSuccess;
  }
  static cudaError_t mem_pool_set_attribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
    return fake().enter("mem_pool_set_attribute");
  }
  static cudaError_t mem_pool_destroy(cudaMemPool_t pool) {
    const cudaError_t e = fake().enter("mem_pool_destroy");
    if (fake().pools_.erase(pool) == 0) fake().broken_rules_.emplace_back("pool freed twice");
    delete reinterpret_cast<char*>(pool);
    return e;
  }
  static cudaError_t mem_pool_trim_to(cudaMemPool_t, std::size_t) {
    return fake().enter("mem_pool_trim_to");
  }
  static cudaError_t malloc_from_pool_async(void** out, std::size_t bytes, cudaMemPool_t,
                                            cudaStream_t) {
    if (const cudaError_t e = fake().enter("malloc_from_pool_async")) return e;
    if (bytes > fake().free_bytes) return fake().error(cudaErrorMemoryAllocation);
    *out = fake().allocate(bytes, fake().device, cudaMemoryTypeDevice, true);
    return cudaSuccess;
  }
  static cudaError_t free_async(void* data, cudaStream_t) {
    const cudaError_t e = fake().enter("free_async");
    if (fake().holding_) {
      fake().held_.emplace_back([data] { fake().release(data); });
    } else {
      fake().release(data);
    }
    return e;
  }
  static cudaError_t mem_get_info(std::size_t* free, std::size_t* total) {
    if (const cudaError_t e = fake().enter("mem_get_info")) return e;
    *free = fake().free_bytes;
    *total = fake().free_bytes;
    return cudaSuccess;
  }
  static cudaError_t memcpy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                  cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memcpy_async")) return e;
    return fake().work(stream, cudaGraphNodeTypeMemcpy, 0, [=] { std::memmove(to, from, bytes); });
  }
  static cudaError_t memset_async(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memset_async")) return e;
    return fake().work(stream, cudaGraphNodeTypeMemset, 0, [=] { std::memset(to, value, bytes); });
  }
  static cudaError_t memset_2d_async(void* to, std::size_t pitch, int value, std::size_t width,
                                     std::size_t rows, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("memset_2d_async")) return e;
    if (pitch < width) return fake().error(cudaErrorInvalidPitchValue);
    return fake().work(stream, cudaGraphNodeTypeMemset, 0, [=] {
      for (std::size_t r = 0; r < rows; ++r) {
        std::memset(static_cast<char*>(to) + r * pitch, value, width);
      }
    });
  }

  static cudaError_t stream_create_with_flags(cudaStream_t* out, unsigned flags) {
    if (const cudaError_t e = fake().enter("stream_create_with_flags")) return e;
    auto made = std::make_unique<FakeCuda::StreamState>();
    made->flags = flags;
    auto* const handle = made.get();
    fake().streams_[handle] = std::move(made);
    *out = reinterpret_cast<cudaStream_t>(handle);
    return cudaSuccess;
  }
  static cudaError_t stream_destroy(cudaStream_t stream) {
    const cudaError_t e = fake().enter("stream_destroy");
    if (fake().state(stream).status != cudaStreamCaptureStatusNone) {
      fake().broken_rules_.emplace_back("a capturing stream was destroyed");
    }
    fake().streams_.erase(reinterpret_cast<FakeCuda::StreamState*>(stream));
    return e;
  }
  static cudaError_t stream_synchronize(cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("stream_synchronize")) return e;
    if (fake().state(stream).status != cudaStreamCaptureStatusNone) {
      fake().invalidate(stream);
      return fake().error(cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
  }
  static cudaError_t stream_is_capturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
    if (const cudaError_t e = fake().enter("stream_is_capturing")) return e;
    if (stream == nullptr) {
      for (const auto& [s, owner] : fake().streams_) {
        if (s->flags == cudaStreamDefault && s->status != cudaStreamCaptureStatusNone) {
          return fake().error(cudaErrorStreamCaptureImplicit);
        }
      }
    }
    *out = fake().state(stream).status;
    return cudaSuccess;
  }
  static cudaError_t event_create_with_flags(cudaEvent_t* out, unsigned) {
    if (const cudaError_t e = fake().enter("event_create_with_flags")) return e;
    auto made = std::make_unique<FakeCuda::Event>();
    auto* const handle = made.get();
    fake().events_[handle] = std::move(made);
    *out = reinterpret_cast<cudaEvent_t>(handle);
    return cudaSuccess;
  }
  static cudaError_t event_destroy(cudaEvent_t event) {
    const cudaError_t e = fake().enter("event_destroy");
    fake().events_.erase(reinterpret_cast<FakeCuda::Event*>(event));
    return e;
  }
  static cudaError_t event_record(cudaEvent_t event, cudaStream_t) {
    if (const cudaError_t e = fake().enter("event_record")) return e;
    reinterpret_cast<FakeCuda::Event*>(event)->at_us = fake().microseconds_;
    return cudaSuccess;
  }
  static cudaError_t event_synchronize(cudaEvent_t) { return fake().enter("event_synchronize"); }
  static cudaError_t event_elapsed_time(float* out, cudaEvent_t begin, cudaEvent_t end) {
    if (const cudaError_t e = fake().enter("event_elapsed_time")) return e;
    *out = static_cast<float>((reinterpret_cast<FakeCuda::Event*>(end)->at_us -
                               reinterpret_cast<FakeCuda::Event*>(begin)->at_us) *
                              1e-3);
    return cudaSuccess;
  }

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
    *graph = reinterpret_cast<cudaGraph_t>(s.graph);
    *nodes = s.info_nodes.data();
    *edges = s.info_edges.data();
    *count = s.leaves.size();
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
  static cudaError_t graph_instantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                       unsigned long long) {
    if (const cudaError_t e = fake().enter("graph_instantiate")) return e;
    const auto* const source = reinterpret_cast<FakeCuda::Graph*>(graph);
    auto made = std::make_unique<FakeCuda::Exec>();
    made->nodes = source->nodes;
    made->retained = source->retained;
    for (FakeCuda::UserObject* object : made->retained) object->references += 1;
    auto* const handle = made.get();
    fake().execs_[handle] = std::move(made);
    *out = reinterpret_cast<cudaGraphExec_t>(handle);
    return cudaSuccess;
  }
  static cudaError_t graph_upload(cudaGraphExec_t, cudaStream_t) {
    return fake().enter("graph_upload");
  }
  static cudaError_t replay(cudaGraphExec_t exec, cudaStream_t stream) {
    if (fake().state(stream).status != cudaStreamCaptureStatusNone) {
      fake().invalidate(stream);
      return fake().error(cudaErrorStreamCaptureUnsupported);
    }
    auto* const handle = reinterpret_cast<FakeCuda::Exec*>(exec);
    handle->in_flight = fake().holding_;
    fake().microseconds_ += 1;
    fake().run(handle->nodes, handle->off);
    return cudaSuccess;
  }
  static cudaError_t graph_launch(cudaGraphExec_t exec, cudaStream_t stream) {
    if (const cudaError_t e = fake().enter("graph_launch")) return e;
    return replay(exec, stream);
  }
  // The driver's two functions of a replay: calls of their own, errors in no slot.
  static CUresult driver_is_capturing(CUstream stream, CUstreamCaptureStatus* out) {
    if (const cudaError_t e = fake().enter("cuStreamIsCapturing", false)) {
      return static_cast<CUresult>(e);
    }
    *out = static_cast<CUstreamCaptureStatus>(fake().state(stream).status);
    return CUDA_SUCCESS;
  }
  static CUresult driver_graph_launch(CUgraphExec exec, CUstream stream) {
    if (const cudaError_t e = fake().enter("cuGraphLaunch", false)) {
      return static_cast<CUresult>(e);
    }
    return static_cast<CUresult>(replay(exec, stream));
  }
  static cudaError_t get_driver_entry_point(const char* symbol, void** out, unsigned,
                                            unsigned long long,
                                            cudaDriverEntryPointQueryResult* found) {
    if (const cudaError_t e = fake().enter("get_driver_entry_point")) return e;
    *found = cudaDriverEntryPointSymbolNotFound;
    if (!fake().driver_symbols.contains(symbol)) return cudaSuccess;
    const std::string name = symbol;
    if (name == "cuStreamIsCapturing") *out = reinterpret_cast<void*>(&driver_is_capturing);
    if (name == "cuGraphLaunch") *out = reinterpret_cast<void*>(&driver_graph_launch);
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
  }
  static cudaError_t graph_node_set_enabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            unsigned enabled) {
    if (const cudaError_t e = fake().enter("graph_node_set_enabled")) return e;
    auto* const handle = reinterpret_cast<FakeCuda::Node*>(node);
    const bool has_switch = handle->type == cudaGraphNodeTypeKernel ||
                            handle->type == cudaGraphNodeTypeMemcpy ||
                            handle->type == cudaGraphNodeTypeMemset;
    if (!has_switch) return fake().error(cudaErrorInvalidValue);
    auto& off = reinterpret_cast<FakeCuda::Exec*>(exec)->off;
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

const cuda::Api& FakeCuda::api() {
  static const cuda::Api table = [] {
    cuda::Api t{};
    t.get_last_error = FakeFunctions::get_last_error;
    t.get_error_name = FakeFunctions::get_error_name;
    t.get_error_string = FakeFunctions::get_error_string;
    t.runtime_get_version = FakeFunctions::version;
    t.driver_get_version = FakeFunctions::version;
#define GE_FAKE(name) t.name = FakeFunctions::name
    GE_FAKE(get_device_count);
    GE_FAKE(get_device);
    GE_FAKE(set_device);
    GE_FAKE(device_get_attribute);
    GE_FAKE(pointer_get_attributes);
    GE_FAKE(mem_pool_create);
    GE_FAKE(mem_pool_set_attribute);
    GE_FAKE(mem_pool_destroy);
    GE_FAKE(mem_pool_trim_to);
    GE_FAKE(malloc_from_pool_async);
    GE_FAKE(free_async);
    GE_FAKE(mem_get_info);
    GE_FAKE(memcpy_async);
    GE_FAKE(memset_async);
    GE_FAKE(memset_2d_async);
    GE_FAKE(stream_create_with_flags);
    GE_FAKE(stream_destroy);
    GE_FAKE(stream_synchronize);
    GE_FAKE(stream_is_capturing);
    GE_FAKE(event_create_with_flags);
    GE_FAKE(event_destroy);
    GE_FAKE(event_record);
    GE_FAKE(event_synchronize);
    GE_FAKE(event_elapsed_time);
    GE_FAKE(thread_exchange_stream_capture_mode);
    GE_FAKE(stream_begin_capture_to_graph);
    GE_FAKE(stream_get_capture_info);
    GE_FAKE(stream_end_capture);
    GE_FAKE(graph_create);
    GE_FAKE(graph_destroy);
    GE_FAKE(graph_get_nodes);
    GE_FAKE(graph_get_edges);
    GE_FAKE(graph_node_get_type);
    GE_FAKE(graph_instantiate);
    GE_FAKE(graph_upload);
    GE_FAKE(graph_launch);
    GE_FAKE(graph_node_set_enabled);
    GE_FAKE(launch_host_func);
    GE_FAKE(get_driver_entry_point);
    GE_FAKE(graph_exec_destroy);
    GE_FAKE(user_object_create);
    GE_FAKE(user_object_release);
    GE_FAKE(graph_retain_user_object);
    GE_FAKE(launch_kernel_ex);
    GE_FAKE(func_get_attributes);
#undef GE_FAKE
    return t;
  }();
  return table;
}

}  // namespace ai::test
