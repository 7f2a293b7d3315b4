#include "kernels/dry_run.hpp"

#include "cuda/error.hpp"
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"

namespace ai::kernels {

namespace {

constexpr int kAttempts = 4;  // another thread may break a capture

/// A capture that is ended at the latest with its scope, so that none stays open.
class Capture {
 public:
  Capture(const cuda::Api& api, Stream stream) noexcept : api_(api), stream_(stream) {}
  ~Capture() {
    if (open_) (void)end();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Status begin() noexcept {
    AI_CUDA_RETURN_IF_ERROR(api_, stream_begin_capture, stream_, cudaStreamCaptureModeRelaxed);
    open_ = true;
    return {};
  }
  Status end() noexcept {
    open_ = false;
    cudaGraph_t handle = nullptr;
    const cudaError_t code = api_.stream_end_capture(stream_, &handle);
    const cuda::OwnedGraph graph(api_, handle);
    return cuda::to_status(api_, code, "cudaStreamEndCapture");
  }

 private:
  const cuda::Api& api_;
  Stream stream_;
  bool open_ = false;
};

Status record_once(const cuda::Api& api, Stream stream, Step& step, const AddressMap& addresses) {
  Capture capture(api, stream);
  AI_RETURN_IF_ERROR(capture.begin());
  const Status recorded = step.enqueue(addresses, stream);
  const Status ended = capture.end();
  if (recorded.ok()) return ended;
  if (ended.code() != StatusCode::CaptureInvalidated) return recorded;
  // A library does not say that its call failed because the capture was broken already.
  return {StatusCode::CaptureInvalidated, recorded.message() + "; " + ended.message()};
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
