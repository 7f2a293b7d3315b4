#include "kernels/dry_run.hpp"

#include "cuda/error.hpp"
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"

namespace ai::kernels {

namespace {

constexpr int kAttempts = 4;  // another thread may break a capture

Status record_once(const cuda::Api& api, Stream stream, Step& step, const AddressMap& addresses) {
  AI_CUDA_RETURN_IF_ERROR(api, stream_begin_capture, stream, cudaStreamCaptureModeRelaxed);
  const Status recorded = step.enqueue(addresses, stream);
  cudaGraph_t handle = nullptr;
  const Status ended =
      cuda::to_status(api, api.stream_end_capture(stream, &handle), "cudaStreamEndCapture");
  const cuda::OwnedGraph graph(api, handle);
  return ended.code() == StatusCode::CaptureInvalidated || recorded.ok() ? ended : recorded;
}

}  // namespace

// The graph is not instantiated: nodes that fill or copy memory would be held against addresses
// that stand for nothing yet.
Status dry_run(const cuda::Api& api, Step& step, const AddressMap& addresses) {
  const cuda::CaptureModeGuard relaxed(api);
  Result<cuda::OwnedStream> stream = cuda::make_stream(api);
  AI_RETURN_IF_ERROR(stream.status());
  Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = record_once(api, stream->get(), step, addresses);
    if (status.code() != StatusCode::CaptureInvalidated) break;
  }
  return status;
}

}  // namespace ai::kernels
