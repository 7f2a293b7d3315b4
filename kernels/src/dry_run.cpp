#include "kernels/dry_run.hpp"

#include "cuda/error.hpp"
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"

namespace ai::kernels {

Status dry_run(const cuda::Api& api, Step& step, const AddressMap& addresses) {
  const cuda::CaptureModeGuard relaxed(api);
  Result<cuda::OwnedStream> stream = cuda::make_stream(api);
  AI_RETURN_IF_ERROR(stream.status());
  AI_CUDA_RETURN_IF_ERROR(api, stream_begin_capture, stream->get(), cudaStreamCaptureModeRelaxed);
  const Status recorded = step.enqueue(addresses, stream->get());
  cudaGraph_t handle = nullptr;
  const Status ended =
      cuda::to_status(api, api.stream_end_capture(stream->get(), &handle), "cudaStreamEndCapture");
  const cuda::OwnedGraph graph(api, handle);
  AI_RETURN_IF_ERROR(recorded);
  AI_RETURN_IF_ERROR(ended);
  cudaGraphExec_t exec = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, graph_instantiate, &exec, graph.get(), 0);
  const cuda::OwnedGraphExec owned(api, exec);
  return {};
}

}  // namespace ai::kernels
