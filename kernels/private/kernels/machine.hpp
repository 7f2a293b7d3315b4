#pragma once

#include <cstdint>
#include <memory>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "kernels/lt_context.hpp"

namespace ai::kernels {

/// What lowering asks of the machine: the runtime, the device, and cuBLASLt once something needs
/// it. Not thread-safe.
class Machine {
 public:
  /// Precondition: the device is current.
  using LtLoader = Result<std::shared_ptr<const LtContext>> (*)(const cuda::Api& api, int device);

  Machine(const cuda::Api& api, LtLoader load_lt, int device) noexcept
      : api_(api), load_lt_(load_lt), device_(device) {}

  [[nodiscard]] const cuda::Api& api() const noexcept { return api_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Multiprocessors of the device, which must be current. Asked once.
  [[nodiscard]] Result<int> sm_count();
  /// Threads that the device, which must be current, holds at once. Asked once.
  [[nodiscard]] Result<std::int64_t> resident_threads();
  /// cuBLASLt and the device's handle, from the loader on the first call. The device must be
  /// current.
  [[nodiscard]] Result<std::shared_ptr<const LtContext>> lt();

 private:
  const cuda::Api& api_;
  LtLoader load_lt_;
  int device_;
  int sm_count_ = 0;
  int sm_threads_ = 0;
  std::shared_ptr<const LtContext> lt_;
};

}  // namespace ai::kernels
