#pragma once

#include "ai/status.hpp"
#include "cuda/api.hpp"

namespace ai::cuda {

/// Makes `device` current for a scope and restores the caller's device afterwards.
class DeviceGuard {
 public:
  DeviceGuard(const Api& api, int device) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  /// Whether `device` is current now.
  [[nodiscard]] const Status& status() const noexcept { return status_; }

 private:
  const Api& api_;
  int previous_ = -1;
  bool restore_ = false;
  Status status_;
};

/// Lets this thread allocate, load modules and synchronise its own streams although a capture of
/// the caller's is open in it (relaxed capture mode for a scope): such calls of ours are no part of
/// that capture and must neither fail nor invalidate it.
class CaptureModeGuard {
 public:
  explicit CaptureModeGuard(const Api& api) noexcept;
  ~CaptureModeGuard();
  CaptureModeGuard(const CaptureModeGuard&) = delete;
  CaptureModeGuard& operator=(const CaptureModeGuard&) = delete;

 private:
  const Api& api_;
  cudaStreamCaptureMode previous_ = cudaStreamCaptureModeRelaxed;
  bool restore_ = false;
};

}  // namespace ai::cuda
