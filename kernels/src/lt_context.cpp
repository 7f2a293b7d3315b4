#include "kernels/lt_context.hpp"

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

// The last step may die on any thread, under any device, and while its caller is capturing.
LtContext::~LtContext() {
  const cuda::CaptureModeGuard relaxed(api_);
  const cuda::DeviceGuard current(api_, device_);
  (void)lt_.destroy(handle_);
}

}  // namespace ai::kernels
