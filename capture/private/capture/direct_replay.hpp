#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "capture/direct_plan.hpp"
#include "cuda/api.hpp"
#include "cuda/driver_launch.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// A direct call as a graph of its own, over its pointers and with scratch of its own: launching it
/// costs the host less than a single kernel launch, however many steps it has. One thread at a
/// time. Launches run one after the other, whatever their streams. Destroying it in flight is safe
/// and does not wait.
class DirectReplay {
 public:
  /// Calls with more scratch go without: each graph would keep that much for itself.
  static constexpr std::size_t kMostScratch = std::size_t{1} << 20;
  /// How many there may be at once, in the process: the driver takes 50 to 160 KiB of device memory
  /// for each.
  static constexpr std::size_t kDefaultLimit = 256;
  [[nodiscard]] static std::size_t limit() noexcept {
    return limit_.load(std::memory_order_relaxed);
  }
  static void set_limit(std::size_t limit) noexcept {
    limit_.store(limit, std::memory_order_relaxed);
  }

  /// Whether a call that goes `road` may have one.
  [[nodiscard]] static bool suits(const DirectRoad& road) noexcept {
    return !road.steps.empty() && road.scratch.bytes <= kMostScratch;
  }
  [[nodiscard]] static bool has_room() noexcept { return count() < limit(); }
  /// How many there are.
  [[nodiscard]] static std::size_t count() noexcept {
    return count_.load(std::memory_order_relaxed);
  }

  /// The eager road of `plan` over the operands of `call`, whose device is current. Takes tens of
  /// microseconds and waits for nothing of the caller's. Null where it fails, for whatever reason:
  /// then nothing is left of it.
  [[nodiscard]] static std::unique_ptr<DirectReplay> make(const cuda::Api& api,
                                                          const cuda::DriverLaunch& driver,
                                                          const DirectPlan& plan,
                                                          const DirectCall& call) noexcept;
  ~DirectReplay();
  DirectReplay(const DirectReplay&) = delete;
  DirectReplay& operator=(const DirectReplay&) = delete;

  /// `stream` is not being captured, and the device is current. DeviceMismatch if the stream
  /// belongs to another one. May throw std::bad_alloc.
  [[nodiscard]] Status launch(Stream stream);

 private:
  DirectReplay(const cuda::Api& api, const cuda::DriverLaunch& driver, int device) noexcept;
  [[nodiscard]] Status build(const DirectPlan& plan, const DirectCall& call);
  [[nodiscard]] Status leave_scratch_to_last_launch() noexcept;

  static inline std::atomic<std::size_t> count_{0};
  static inline std::atomic<std::size_t> limit_{kDefaultLimit};

  const cuda::Api& api_;
  const cuda::DriverLaunch driver_;
  const int device_;
  const std::size_t before_;  // how many there were
  cuda::DeviceMemory scratch_;
  // For the fence behind the last launch; empty without scratch.
  cuda::OwnedGraph graph_;
  std::vector<cudaGraphNode_t> nodes_;
  cuda::OwnedGraphExec exec_;
  // Found to be of the device; the default ones always are. Another device's stream of the same
  // handle, later, is not: the work is on the right device all the same.
  Stream stream_ = nullptr;
  bool is_launched_ = false;
};

}  // namespace ai::detail
