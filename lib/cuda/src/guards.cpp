#include "cuda/guards.hpp"

#include "cuda/error.hpp"

namespace ai::cuda {

DeviceGuard::DeviceGuard(const Api& api, int device) noexcept : api_(api) {
  status_ = to_status(api_, api_.get_device(&previous_), "cudaGetDevice");
  if (!status_.ok() || previous_ == device) return;
  // A cudaSetDevice that fails late (no memory for a context) may have switched already.
  restore_ = true;
  status_ = to_status(api_, api_.set_device(device), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() {
  if (restore_ && api_.set_device(previous_) != cudaSuccess) (void)api_.get_last_error();
}

CaptureModeGuard::CaptureModeGuard(const Api& api) noexcept : api_(api) {
  restore_ = api_.thread_exchange_stream_capture_mode(&previous_) == cudaSuccess;
  if (!restore_) (void)api_.get_last_error();
}

CaptureModeGuard::~CaptureModeGuard() {
  if (restore_ && api_.thread_exchange_stream_capture_mode(&previous_) != cudaSuccess) {
    (void)api_.get_last_error();
  }
}

}  // namespace ai::cuda
