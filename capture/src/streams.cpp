#include "capture/streams.hpp"

#include <string>

#include "capture/guarded.hpp"
#include "cuda/error.hpp"

namespace ai::detail {

Status unknown_state(const cuda::Api& api, cudaError_t code) noexcept {
  if (code != cudaErrorStreamCaptureImplicit) {
    return cuda::to_status(api, code, "cudaStreamIsCapturing");
  }
  (void)api.get_last_error();
  return plain_status(
      StatusCode::CaptureActive,
      "a blocking stream is being captured, and work on the legacy stream would become part of "
      "that capture: launch after it has ended, or on another stream");
}

namespace {

Status check_equal(int owner, int device) {
  if (owner == device) return {};
  return {StatusCode::DeviceMismatch, "the stream belongs to device " + std::to_string(owner) +
                                          ", expected device " + std::to_string(device)};
}

}  // namespace

Status check_owner(const cuda::Api& api, const cuda::DriverStreams& driver, Stream stream,
                   int device) {
  if (cuda::is_default(stream)) return {};
  if (const auto owner = cuda::device_of(driver, stream)) return check_equal(*owner, device);
  int owner = device;
  AI_CUDA_RETURN_IF_ERROR(api, stream_get_device, stream, &owner);
  return check_equal(owner, device);
}

Status check_owner_of_captured(const cuda::DriverStreams& driver, Stream stream, int device) {
  if (cuda::is_default(stream)) return {};
  return check_equal(cuda::device_of(driver, stream).value_or(device), device);
}

}  // namespace ai::detail
