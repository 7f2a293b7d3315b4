#include "capture/reclaim.hpp"

#include <atomic>
#include <utility>

#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

// Trivially destructible: CUDA may still push while static objects die.
constinit std::atomic<Retained*> released{nullptr};

void CUDART_CB release(void* data) noexcept {
  auto* const block = static_cast<Retained*>(data);
  block->next = released.load(std::memory_order_relaxed);
  while (!released.compare_exchange_weak(block->next, block, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

}  // namespace

Status retain(const cuda::Api& api, cudaGraph_t graph,
              std::unique_ptr<Retained> retained) noexcept {
  cudaUserObject_t object = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, user_object_create, &object, retained.get(), release, 1,
                          cudaUserObjectNoDestructorSync);
  (void)retained.release();  // the object's now
  const cudaError_t code = api.graph_retain_user_object(graph, object, 1, cudaGraphUserObjectMove);
  if (code == cudaSuccess) return {};
  Status status = cuda::to_status(api, code, "cudaGraphRetainUserObject");
  if (api.user_object_release(object, 1) != cudaSuccess) (void)api.get_last_error();
  return status;
}

Status retain_until_done(const cuda::Api& api, Stream stream,
                         std::unique_ptr<Retained>& retained) noexcept {
  AI_CUDA_RETURN_IF_ERROR(api, launch_host_func, stream, release, retained.get());
  (void)retained.release();
  return {};
}

void reclaim(const cuda::Api& api) noexcept {
  Retained* block = released.exchange(nullptr, std::memory_order_acquire);
  if (block == nullptr) return;
  const cuda::CaptureModeGuard relaxed(api);
  while (block != nullptr) {
    const std::unique_ptr<Retained> owner(block);
    block = owner->next;
  }
}

}  // namespace ai::detail
