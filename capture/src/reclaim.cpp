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

RetainedObject::RetainedObject(RetainedObject&& other) noexcept
    : api_(other.api_),
      object_(std::exchange(other.object_, nullptr)),
      retained_(std::exchange(other.retained_, nullptr)) {}

RetainedObject& RetainedObject::operator=(RetainedObject&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(object_, other.object_);
  std::swap(retained_, other.retained_);
  return *this;
}

RetainedObject::~RetainedObject() {
  if (object_ != nullptr && api_->user_object_release(object_, 1) != cudaSuccess) {
    (void)api_->get_last_error();
  }
}

void RetainedObject::abandon() noexcept {
  object_ = nullptr;
  retained_ = nullptr;
}

Result<RetainedObject> RetainedObject::make(const cuda::Api& api,
                                            std::unique_ptr<Retained> retained) noexcept {
  RetainedObject made;
  AI_CUDA_RETURN_IF_ERROR(api, user_object_create, &made.object_, retained.get(), release, 1,
                          cudaUserObjectNoDestructorSync);
  made.retained_ = retained.release();  // the object's now
  made.api_ = &api;
  return made;
}

Status RetainedObject::give_to(cudaGraph_t graph) const noexcept {
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_retain_user_object, graph, object_, 1, 0);
  return {};
}

Status retain(const cuda::Api& api, cudaGraph_t graph,
              std::unique_ptr<Retained> retained) noexcept {
  const Result<RetainedObject> object = RetainedObject::make(api, std::move(retained));
  AI_RETURN_IF_ERROR(object.status());
  return object->give_to(graph);
}

Status retain_until_done(const cuda::Api& api, Stream stream,
                         std::unique_ptr<Retained>& retained) noexcept {
  AI_CUDA_RETURN_IF_ERROR(api, launch_host_func, stream, release, retained.get());
  (void)retained.release();
  return {};
}

void reclaim(const cuda::Api& api) noexcept {
  if (released.load(std::memory_order_relaxed) == nullptr) return;
  Retained* block = released.exchange(nullptr, std::memory_order_acquire);
  if (block == nullptr) return;
  const cuda::CaptureModeGuard relaxed(api);
  while (block != nullptr) {
    const std::unique_ptr<Retained> owner(block);
    block = owner->next;
  }
}

}  // namespace ai::detail
