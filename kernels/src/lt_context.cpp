#include "kernels/lt_context.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "cuda/guards.hpp"

namespace ai::kernels {

Result<std::shared_ptr<const LtContext>> LtContext::make(const cuda::Api& api,
                                                         const cuda::LtApi& lt, int device) {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t code = lt.create(&handle);
  if (code != CUBLAS_STATUS_SUCCESS) return cuda::to_status(lt, code, "cublasLtCreate");
  try {
    return std::shared_ptr<const LtContext>(std::make_shared<LtContext>(api, lt, device, handle));
  } catch (...) {
    (void)lt.destroy(handle);
    throw;
  }
}

Result<std::shared_ptr<const LtContext>> process_lt(const cuda::Api& api, int device) {
  struct Registry {
    std::mutex mutex;
    std::map<int, std::shared_ptr<const LtContext>> contexts;
  };
  static Registry& all = *new Registry;
  const std::scoped_lock lock(all.mutex);
  std::shared_ptr<const LtContext>& context = all.contexts[device];
  if (context == nullptr) {
    const Result<const cuda::LtApi*> loaded = cuda::lt_api();
    AI_RETURN_IF_ERROR(loaded.status());
    Result<std::shared_ptr<const LtContext>> made = LtContext::make(api, **loaded, device);
    AI_RETURN_IF_ERROR(made.status());
    context = std::move(made).value();
  }
  return context;
}

// The last step may die on any thread, under any device, and while its caller is capturing.
LtContext::~LtContext() {
  const cuda::CaptureModeGuard relaxed(api_);
  const cuda::DeviceGuard current(api_, device_);
  (void)lt_.destroy(handle_);
}

}  // namespace ai::kernels
