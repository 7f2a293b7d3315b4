#pragma once

#include <memory>
#include <vector>

#include "ai/step.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// What the nodes of a graph point to. Where it outlives its executable, CUDA says when the last
/// launch is over, but calls us on a thread that may not call CUDA: so the block only lands on a
/// process-wide list there and is freed by the next reclaim().
struct Retained {
  cuda::DeviceMemory workspace;
  std::vector<std::shared_ptr<Step>> steps;  // they own the constants their nodes read
  std::shared_ptr<const void> held;          // the caller's (Executable::hold)
  Retained* next = nullptr;
};

/// A Retained as a CUDA user object: it is freed, now or by the next reclaim(), when this is gone
/// and with it every graph that was given it and whatever is instantiated from or updated with
/// these. Makes every launch of such a graph dearer, on the host and on the device
/// (docs/results/gpu-tests.md), so it is the last resort. Move-only.
class RetainedObject {
 public:
  RetainedObject() noexcept = default;
  RetainedObject(RetainedObject&& other) noexcept;
  RetainedObject& operator=(RetainedObject&& other) noexcept;
  ~RetainedObject();

  /// On failure `retained` is freed.
  [[nodiscard]] static Result<RetainedObject> make(const cuda::Api& api,
                                                   std::unique_ptr<Retained> retained) noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }
  [[nodiscard]] Status give_to(cudaGraph_t graph) const noexcept;
  /// Null where there is none. It lives at least as long as this.
  [[nodiscard]] Retained* get() const noexcept { return retained_; }
  /// Never frees it. Empty afterwards.
  void abandon() noexcept;

 private:
  const cuda::Api* api_ = nullptr;
  cudaUserObject_t object_ = nullptr;
  Retained* retained_ = nullptr;  // CUDA's
};

/// Gives `graph` alone such an object.
[[nodiscard]] Status retain(const cuda::Api& api, cudaGraph_t graph,
                            std::unique_ptr<Retained> retained) noexcept;

/// Hands `retained` to the work that is on `stream` by now. On failure it is still the caller's.
[[nodiscard]] Status retain_until_done(const cuda::Api& api, Stream stream,
                                       std::unique_ptr<Retained>& retained) noexcept;

/// Frees everything that CUDA has let go of since the last call. Any thread, any time but inside a
/// callback of CUDA's, and never while a lock of ours is held: what the caller had held here may
/// take locks of its own when it goes, and call any function of the library.
void reclaim(const cuda::Api& api) noexcept;

}  // namespace ai::detail
