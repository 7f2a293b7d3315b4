#include "kernels/lt_context.hpp"

#include <utility>

namespace ai::kernels {
namespace {

Result<std::shared_ptr<const LtContext>> make_with_library(const cuda::Api& api) {
  const Result<const cuda::LtApi*> lt = cuda::lt_api();
  AI_RETURN_IF_ERROR(lt.status());
  return LtContext::make(api, **lt);
}

}  // namespace

Result<std::shared_ptr<const LtContext>> LtContext::make(const cuda::Api& api,
                                                         const cuda::LtApi& lt) {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t code = lt.create(&handle);
  if (code != CUBLAS_STATUS_SUCCESS) return cuda::to_status(lt, code, "cublasLtCreate");
  try {
    return std::shared_ptr<const LtContext>(std::make_shared<LtContext>(api, lt, handle));
  } catch (...) {
    (void)lt.destroy(handle);
    throw;
  }
}

Result<std::shared_ptr<const LtContext>> LtContexts::get(const cuda::Api& api, int device) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const LtContext>& context = contexts_[device];
  if (context == nullptr) {
    Result<std::shared_ptr<const LtContext>> made = make_(api);
    AI_RETURN_IF_ERROR(made.status());
    context = std::move(made).value();
  }
  return context;
}

Result<std::shared_ptr<const LtContext>> process_lt(const cuda::Api& api, int device) {
  static LtContexts& all = *new LtContexts(&make_with_library);
  return all.get(api, device);
}

}  // namespace ai::kernels
