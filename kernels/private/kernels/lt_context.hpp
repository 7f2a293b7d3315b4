#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "cuda/lt_api.hpp"

namespace ai::kernels {

/// What all steps over cuBLASLt share on one device: the library and one handle, which may be used
/// from several threads.
class LtContext {
 public:
  /// Precondition: the device that the handle is for is current.
  [[nodiscard]] static Result<std::shared_ptr<const LtContext>> make(const cuda::Api& api,
                                                                     const cuda::LtApi& lt);
  LtContext(const cuda::Api& api, const cuda::LtApi& lt, cublasLtHandle_t handle) noexcept
      : api_(api), lt_(lt), handle_(handle) {}
  ~LtContext() { (void)lt_.destroy(handle_); }
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
  cublasLtHandle_t handle_;
};

/// One context a device, made when it is first asked for and kept from then on. A failure is not
/// kept. Thread-safe.
class LtContexts {
 public:
  using Maker = Result<std::shared_ptr<const LtContext>> (*)(const cuda::Api& api);
  explicit LtContexts(Maker make) noexcept : make_(make) {}

  /// Precondition: `device` is current. May throw std::bad_alloc.
  [[nodiscard]] Result<std::shared_ptr<const LtContext>> get(const cuda::Api& api, int device);

 private:
  Maker make_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const LtContext>> contexts_;
};

/// The process's one context for `device`: cuBLASLt is loaded and a handle made on the first call.
/// It is never destroyed: cublasLtDestroy waits for everything that runs on the device, and breaks
/// the capture of a caller who is in the middle of one. Precondition: `device` is current.
[[nodiscard]] Result<std::shared_ptr<const LtContext>> process_lt(const cuda::Api& api, int device);

}  // namespace ai::kernels
