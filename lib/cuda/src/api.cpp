#include "cuda/api.hpp"

namespace ai::cuda {

const Api& runtime_api() noexcept {
  static constexpr Api kApi{
      .get_last_error = &::cudaGetLastError,
      .get_error_name = &::cudaGetErrorName,
      .get_error_string = &::cudaGetErrorString,
      .runtime_get_version = &::cudaRuntimeGetVersion,
      .driver_get_version = &::cudaDriverGetVersion,
      .get_device_count = &::cudaGetDeviceCount,
      .get_device = &::cudaGetDevice,
      .set_device = &::cudaSetDevice,
      .device_get_attribute = &::cudaDeviceGetAttribute,
      .pointer_get_attributes = &::cudaPointerGetAttributes,
      .get_device_properties = &::cudaGetDeviceProperties,
      .get_driver_entry_point = &::cudaGetDriverEntryPointByVersion,

      .mem_pool_create = &::cudaMemPoolCreate,
      .mem_pool_set_attribute = &::cudaMemPoolSetAttribute,
      .mem_pool_destroy = &::cudaMemPoolDestroy,
      .mem_pool_trim_to = &::cudaMemPoolTrimTo,
      .malloc_from_pool_async = &::cudaMallocFromPoolAsync,
      .free_async = &::cudaFreeAsync,
      .mem_get_info = &::cudaMemGetInfo,
      .memcpy_async = &::cudaMemcpyAsync,
      .memcpy_2d_async = &::cudaMemcpy2DAsync,
      .memset_async = &::cudaMemsetAsync,
      .memset_2d_async = &::cudaMemset2DAsync,

      .stream_create_with_flags = &::cudaStreamCreateWithFlags,
      .stream_destroy = &::cudaStreamDestroy,
      .stream_synchronize = &::cudaStreamSynchronize,
      .stream_is_capturing = &::cudaStreamIsCapturing,
      .stream_get_id = &::cudaStreamGetId,
      .stream_get_device = &::cudaStreamGetDevice,
      .stream_wait_event = &::cudaStreamWaitEvent,
      .launch_host_func = &::cudaLaunchHostFunc,
      .event_create_with_flags = &::cudaEventCreateWithFlags,
      .event_destroy = &::cudaEventDestroy,
      .event_record = &::cudaEventRecord,
      .event_query = &::cudaEventQuery,
      .event_synchronize = &::cudaEventSynchronize,
      .event_elapsed_time = &::cudaEventElapsedTime,

      .thread_exchange_stream_capture_mode = &::cudaThreadExchangeStreamCaptureMode,
      .stream_begin_capture = &::cudaStreamBeginCapture,
      .stream_begin_capture_to_graph = &::cudaStreamBeginCaptureToGraph,
      .stream_get_capture_info = &::cudaStreamGetCaptureInfo,
      .stream_update_capture_dependencies = &::cudaStreamUpdateCaptureDependencies,
      .stream_end_capture = &::cudaStreamEndCapture,

      .graph_create = &::cudaGraphCreate,
      .graph_destroy = &::cudaGraphDestroy,
      .graph_get_nodes = &::cudaGraphGetNodes,
      .graph_get_edges = &::cudaGraphGetEdges,
      .graph_node_get_type = &::cudaGraphNodeGetType,
      .graph_kernel_node_get_attribute = &::cudaGraphKernelNodeGetAttribute,
      .graph_instantiate = &::cudaGraphInstantiate,
      .graph_upload = &::cudaGraphUpload,
      .graph_launch = &::cudaGraphLaunch,
      .graph_node_set_enabled = &::cudaGraphNodeSetEnabled,
      .graph_exec_update = &::cudaGraphExecUpdate,
      .graph_exec_destroy = &::cudaGraphExecDestroy,
      .user_object_create = &::cudaUserObjectCreate,
      .user_object_release = &::cudaUserObjectRelease,
      .graph_retain_user_object = &::cudaGraphRetainUserObject,

      .launch_kernel_ex = &::cudaLaunchKernelExC,
      .func_get_attributes = &::cudaFuncGetAttributes,
      .func_set_attribute = &::cudaFuncSetAttribute,
      .occupancy_max_active_clusters = &::cudaOccupancyMaxActiveClusters,
      .occupancy_max_active_blocks = &::cudaOccupancyMaxActiveBlocksPerMultiprocessor,
      .library_load_data = &::cudaLibraryLoadData,
      .library_unload = &::cudaLibraryUnload,
      .library_get_kernel = &::cudaLibraryGetKernel,
  };
  return kApi;
}

}  // namespace ai::cuda
