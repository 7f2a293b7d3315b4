#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace ai::cuda {

/// Every runtime function the library calls. Nothing else in the project names a cuda* function
/// (CUB's own launches excepted), so a test can replace any of them and fail or count its calls.
/// Types are spelled out where cuda_runtime.h overloads the name in C++.
struct Api {
  // errors, versions, device
  decltype(&::cudaGetLastError) get_last_error;
  decltype(&::cudaGetErrorName) get_error_name;
  decltype(&::cudaGetErrorString) get_error_string;
  decltype(&::cudaRuntimeGetVersion) runtime_get_version;
  decltype(&::cudaDriverGetVersion) driver_get_version;
  decltype(&::cudaGetDeviceCount) get_device_count;
  decltype(&::cudaGetDevice) get_device;
  decltype(&::cudaSetDevice) set_device;
  decltype(&::cudaDeviceGetAttribute) device_get_attribute;
  decltype(&::cudaPointerGetAttributes) pointer_get_attributes;
  decltype(&::cudaGetDeviceProperties) get_device_properties = {};  // a fake may leave it out

  cudaError_t (*get_driver_entry_point)(const char*, void**, unsigned, unsigned long long,
                                        cudaDriverEntryPointQueryResult*) = {};  // likewise

  // memory
  decltype(&::cudaMemPoolCreate) mem_pool_create;
  decltype(&::cudaMemPoolSetAttribute) mem_pool_set_attribute;
  decltype(&::cudaMemPoolDestroy) mem_pool_destroy;
  decltype(&::cudaMemPoolTrimTo) mem_pool_trim_to;
  cudaError_t (*malloc_from_pool_async)(void**, std::size_t, cudaMemPool_t, cudaStream_t);
  decltype(&::cudaFreeAsync) free_async;
  decltype(&::cudaMemGetInfo) mem_get_info;
  decltype(&::cudaMemcpyAsync) memcpy_async;
  decltype(&::cudaMemcpy2DAsync) memcpy_2d_async;
  decltype(&::cudaMemsetAsync) memset_async;
  decltype(&::cudaMemset2DAsync) memset_2d_async;

  // streams and events
  decltype(&::cudaStreamCreateWithFlags) stream_create_with_flags;
  decltype(&::cudaStreamDestroy) stream_destroy;
  decltype(&::cudaStreamSynchronize) stream_synchronize;
  decltype(&::cudaStreamIsCapturing) stream_is_capturing;
  decltype(&::cudaStreamGetId) stream_get_id;
  decltype(&::cudaStreamGetDevice) stream_get_device;
  decltype(&::cudaStreamWaitEvent) stream_wait_event;
  decltype(&::cudaLaunchHostFunc) launch_host_func;
  decltype(&::cudaEventCreateWithFlags) event_create_with_flags;
  decltype(&::cudaEventDestroy) event_destroy;
  decltype(&::cudaEventRecord) event_record;
  decltype(&::cudaEventQuery) event_query = {};  // a fake may leave it out
  decltype(&::cudaEventSynchronize) event_synchronize;
  decltype(&::cudaEventElapsedTime) event_elapsed_time;

  // capture
  decltype(&::cudaThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode;
  decltype(&::cudaStreamBeginCapture) stream_begin_capture;
  decltype(&::cudaStreamBeginCaptureToGraph) stream_begin_capture_to_graph;
  decltype(&::cudaStreamGetCaptureInfo) stream_get_capture_info;
  decltype(&::cudaStreamUpdateCaptureDependencies) stream_update_capture_dependencies;
  decltype(&::cudaStreamEndCapture) stream_end_capture;

  // graphs
  decltype(&::cudaGraphCreate) graph_create;
  decltype(&::cudaGraphDestroy) graph_destroy;
  decltype(&::cudaGraphGetNodes) graph_get_nodes;
  decltype(&::cudaGraphGetEdges) graph_get_edges;
  decltype(&::cudaGraphNodeGetType) graph_node_get_type;
  decltype(&::cudaGraphKernelNodeGetAttribute) graph_kernel_node_get_attribute;
  cudaError_t (*graph_instantiate)(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
  decltype(&::cudaGraphUpload) graph_upload;
  decltype(&::cudaGraphLaunch) graph_launch;
  decltype(&::cudaGraphNodeSetEnabled) graph_node_set_enabled;
  cudaError_t (*graph_exec_update)(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo*);
  decltype(&::cudaGraphExecDestroy) graph_exec_destroy;
  cudaError_t (*user_object_create)(cudaUserObject_t*, void*, cudaHostFn_t, unsigned, unsigned);
  decltype(&::cudaUserObjectRelease) user_object_release;
  decltype(&::cudaGraphRetainUserObject) graph_retain_user_object;

  // kernels
  decltype(&::cudaLaunchKernelExC) launch_kernel_ex;
  cudaError_t (*func_get_attributes)(cudaFuncAttributes*, const void*);
  cudaError_t (*func_set_attribute)(const void*, cudaFuncAttribute,
                                    int) = {};  // likewise, to the end
  cudaError_t (*occupancy_max_active_clusters)(int*, const void*, const cudaLaunchConfig_t*) = {};
  cudaError_t (*occupancy_max_active_blocks)(int*, const void*, int, std::size_t) = {};
  decltype(&::cudaLibraryLoadData) library_load_data = {};
  decltype(&::cudaLibraryUnload) library_unload = {};
  decltype(&::cudaLibraryGetKernel) library_get_kernel = {};
};

/// The functions of the CUDA runtime this library is linked with. Needs no driver to exist: without
/// one the functions return cudaErrorInsufficientDriver or cudaErrorNoDevice.
[[nodiscard]] const Api& runtime_api() noexcept;

}  // namespace ai::cuda
