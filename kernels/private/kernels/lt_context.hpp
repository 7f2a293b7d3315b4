#pragma once

#include <memory>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "cuda/lt_api.hpp"

namespace ai::kernels {

/// What all steps over cuBLASLt share on one device: the library and one handle. Steps keep it
/// alive; the handle may be used from several threads.
class LtContext {
 public:
  /// Precondition: `device` is current.
  [[nodiscard]] static Result<std::shared_ptr<const LtContext>> make(const cuda::Api& api,
                                                                     const cuda::LtApi& lt,
                                                                     int device);
  LtContext(const cuda::Api& api, const cuda::LtApi& lt, int device,
            cublasLtHandle_t handle) noexcept
      : api_(api), lt_(lt), device_(device), handle_(handle) {}
  ~LtContext();
  LtContext(const LtContext&) = delete;
  LtContext& operator=(const LtContext&) = delete;

  [[nodiscard]] const cuda::Api& api() const noexcept { return api_; }
  [[nodiscard]] const cuda::LtApi& lt() const noexcept { return lt_; }
  [[nodiscard]] cublasLtHandle_t handle() const noexcept { return handle_; }
  [[nodiscard]] Status check(cublasStatus_t code, const char* call) const noexcept {
    return code == CUBLAS_STATUS_SUCCESS ? Status() : cuda::to_status(lt_, code, call);
  }

 private:
  const cuda::Api& api_;
  const cuda::LtApi& lt_;
  int device_;
  cublasLtHandle_t handle_;
};

/// The process's one context for `device`: cuBLASLt is loaded and a handle made on the first call.
/// It is never destroyed: cublasLtDestroy waits for everything that runs on the device, and breaks
/// the capture of a caller who is in the middle of one. Precondition: `device` is current.
[[nodiscard]] Result<std::shared_ptr<const LtContext>> process_lt(const cuda::Api& api, int device);

}  // namespace ai::kernels
