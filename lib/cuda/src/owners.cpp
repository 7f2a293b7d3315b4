#include "cuda/owners.hpp"

#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::cuda {

Result<OwnedStream> make_stream(const Api& api) noexcept {
  const CaptureModeGuard relaxed(api);
  cudaStream_t stream = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, stream_create_with_flags, &stream, cudaStreamNonBlocking);
  return OwnedStream(api, stream);
}

Result<OwnedEvent> make_event(const Api& api, bool timing) noexcept {
  const CaptureModeGuard relaxed(api);
  cudaEvent_t event = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, event_create_with_flags, &event,
                          timing ? cudaEventDefault : cudaEventDisableTiming);
  return OwnedEvent(api, event);
}

Result<OwnedGraph> make_graph(const Api& api) noexcept {
  cudaGraph_t graph = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, graph_create, &graph, 0);
  return OwnedGraph(api, graph);
}

Result<OwnedLibrary> load_library(const Api& api, const void* image) noexcept {
  const CaptureModeGuard relaxed(api);
  cudaLibrary_t library = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, library_load_data, &library, image, nullptr, nullptr, 0, nullptr,
                          nullptr, 0);
  return OwnedLibrary(api, library);
}

}  // namespace ai::cuda
