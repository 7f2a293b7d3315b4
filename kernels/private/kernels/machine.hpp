#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "kernels/lt_context.hpp"
#include "kernels/lt_matmul.hpp"

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
  /// matmul.algorithms(workspace_bytes), but equal questions are put to cuBLASLt once. The answers
  /// live as long as this.
  [[nodiscard]] Result<const std::vector<LtAlgorithm>*> algorithms(const LtMatmul& matmul,
                                                                   std::size_t workspace_bytes);
  /// How many questions have been put to it.
  [[nodiscard]] std::size_t queries() const noexcept { return queries_; }

 private:
  const cuda::Api& api_;
  LtLoader load_lt_;
  int device_;
  int sm_count_ = 0;
  int sm_threads_ = 0;
  std::shared_ptr<const LtContext> lt_;
  std::map<LtQuestion, std::vector<LtAlgorithm>> answers_;
  std::size_t queries_ = 0;
};

}  // namespace ai::kernels
