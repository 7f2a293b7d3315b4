#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda/api.hpp"

namespace ai::cuda::test {

/// What the functions of recording_api() saw and what they are told to do.
struct Recording {
  std::vector<std::string> calls;
  std::map<std::string, cudaError_t> fail;  ///< by call: what it returns, doing nothing
  cudaError_t last_error = cudaSuccess;
  int device = 0;
  int device_count = 2;
  int driver = 13000;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  std::uintptr_t next_handle = 0x1000;
  std::map<void*, int> live;  ///< handles and blocks that were made and not released
  int double_frees = 0;
  bool unsafe_mode_seen = false;  ///< memory was touched outside relaxed mode
  cudaStream_t last_stream = nullptr;
  std::size_t last_trim = 1;
  bool pool_waits_for_others = true;
  unsigned stream_flags = 0;
  unsigned event_flags = 0;
  cudaMemPoolProps pool_props = {};
  const void* image = nullptr;  ///< that was loaded last
  cudaStreamCaptureMode unload_mode = cudaStreamCaptureModeGlobal;

  [[nodiscard]] int count(const std::string& call) const {
    return static_cast<int>(std::count(calls.begin(), calls.end(), call));
  }
};

inline Recording& recording() {
  static Recording instance;
  return instance;
}

/// Notes the call; its result is the failure that was asked for, also left in the last-error slot.
inline cudaError_t note(const char* call) {
  Recording& r = recording();
  r.calls.emplace_back(call);
  const auto failure = r.fail.find(call);
  if (failure == r.fail.end()) return cudaSuccess;
  r.last_error = failure->second;
  return failure->second;
}

template <typename Handle>
cudaError_t make(const char* call, Handle* handle) {
  if (const cudaError_t code = note(call); code != cudaSuccess) return code;
  *handle = reinterpret_cast<Handle>(recording().next_handle += 0x100);
  recording().live[*handle] = 1;
  return cudaSuccess;
}

// As CUDA does, a release that fails leaves nothing to release again.
inline cudaError_t release(const char* call, void* handle) {
  if (recording().live.erase(handle) == 0) ++recording().double_frees;
  return note(call);
}

inline cudaError_t memory_call(const char* call, cudaStream_t stream) {
  if (recording().mode != cudaStreamCaptureModeRelaxed) recording().unsafe_mode_seen = true;
  recording().last_stream = stream;
  return note(call);
}

inline Api recording_api() {
  recording() = {};
  Api api{};
  api.get_last_error = [] { return std::exchange(recording().last_error, cudaSuccess); };
  api.get_error_name = [](cudaError_t code) { return ::cudaGetErrorName(code); };
  api.get_error_string = [](cudaError_t code) { return ::cudaGetErrorString(code); };
  api.runtime_get_version = [](int* version) {
    *version = 13000;
    return note("runtime_get_version");
  };
  api.driver_get_version = [](int* version) {
    *version = recording().driver;
    return note("driver_get_version");
  };
  api.get_device_count = [](int* count) {
    *count = recording().device_count;
    return note("get_device_count");
  };
  api.get_device = [](int* device) {
    const cudaError_t code = note("get_device");
    if (code == cudaSuccess) *device = recording().device;
    return code;
  };
  api.set_device = [](int device) {
    const cudaError_t code = note("set_device");
    if (code == cudaSuccess) recording().device = device;
    return code;
  };
  api.device_get_attribute = [](int* value, cudaDeviceAttr attribute, int) {
    *value = static_cast<int>(attribute);
    return note("device_get_attribute");
  };
  api.get_device_properties = [](cudaDeviceProp* properties, int) {
    properties->name[0] = 'G';
    return note("get_device_properties");
  };
  api.mem_pool_create = [](cudaMemPool_t* pool, const cudaMemPoolProps* props) {
    recording().pool_props = *props;
    return make("mem_pool_create", pool);
  };
  api.mem_pool_set_attribute = [](cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    if (attribute == cudaMemPoolReuseAllowInternalDependencies) {
      recording().pool_waits_for_others = *static_cast<const int*>(value) != 0;
    }
    (void)pool;
    return note("mem_pool_set_attribute");
  };
  api.mem_pool_destroy = [](cudaMemPool_t pool) { return release("mem_pool_destroy", pool); };
  api.mem_pool_trim_to = [](cudaMemPool_t, std::size_t keep) {
    recording().last_trim = keep;
    return memory_call("mem_pool_trim_to", recording().last_stream);
  };
  api.malloc_from_pool_async = [](void** data, std::size_t, cudaMemPool_t, cudaStream_t stream) {
    if (recording().mode != cudaStreamCaptureModeRelaxed) recording().unsafe_mode_seen = true;
    recording().last_stream = stream;
    return make("malloc_from_pool_async", data);
  };
  api.free_async = [](void* data, cudaStream_t stream) {
    if (recording().live.erase(data) == 0) ++recording().double_frees;
    return memory_call("free_async", stream);
  };
  api.mem_get_info = [](std::size_t* free, std::size_t* total) {
    *free = 4096;
    *total = 8192;
    return note("mem_get_info");
  };
  api.stream_create_with_flags = [](cudaStream_t* stream, unsigned flags) {
    recording().stream_flags = flags;
    return make("stream_create_with_flags", stream);
  };
  api.stream_destroy = [](cudaStream_t stream) { return release("stream_destroy", stream); };
  api.stream_synchronize = [](cudaStream_t stream) {
    return memory_call("stream_synchronize", stream);
  };
  api.event_create_with_flags = [](cudaEvent_t* event, unsigned flags) {
    recording().event_flags = flags;
    return make("event_create_with_flags", event);
  };
  api.event_destroy = [](cudaEvent_t event) { return release("event_destroy", event); };
  api.event_record = [](cudaEvent_t, cudaStream_t) { return note("event_record"); };
  api.event_query = [](cudaEvent_t) { return note("event_query"); };
  api.graph_create = [](cudaGraph_t* graph, unsigned) { return make("graph_create", graph); };
  api.graph_destroy = [](cudaGraph_t graph) { return release("graph_destroy", graph); };
  api.graph_exec_destroy = [](cudaGraphExec_t exec) { return release("graph_exec_destroy", exec); };
  api.thread_exchange_stream_capture_mode = [](cudaStreamCaptureMode* mode) {
    const cudaError_t code = note("thread_exchange_stream_capture_mode");
    if (code == cudaSuccess) std::swap(*mode, recording().mode);
    return code;
  };
  api.library_load_data = [](cudaLibrary_t* library, const void* image, cudaJitOption*, void**,
                             unsigned, cudaLibraryOption*, void**, unsigned) {
    recording().image = image;
    return make("library_load_data", library);
  };
  api.library_unload = [](cudaLibrary_t library) {
    recording().unload_mode = recording().mode;
    return release("library_unload", library);
  };
  api.library_get_kernel = [](cudaKernel_t* kernel, cudaLibrary_t library, const char*) {
    *kernel = reinterpret_cast<cudaKernel_t>(library);
    return note("library_get_kernel");
  };
  return api;
}

}  // namespace ai::cuda::test
