#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "ai/backend.hpp"
#include "ai/memory.hpp"
#include "ai/status.hpp"
#include "capture/direct_call.hpp"
#include "capture/lowering.hpp"
#include "capture/workspace.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// Steps that carry out a call, over addresses that stand for its operands and for scratch.
struct DirectRoad {
  std::vector<std::shared_ptr<Step>> steps;
  WorkspacePlan scratch;
  /// The operands' places first, in the order of DirectPlan's, then scratch.
  AddressMap addresses;
};

/// How calls with one key are done, wherever their operands lie.
class DirectPlan {
 public:
  /// Lowers the call with `backend`, takes the candidates that the tuning file knows, chooses
  /// others as capture does with Tuning::Off, and prepares them. `plan` is the call's. The call's
  /// device is current, in relaxed capture mode. May throw std::bad_alloc.
  [[nodiscard]] static Result<std::shared_ptr<DirectPlan>> make(const cuda::Api& api,
                                                                const DirectCall& call,
                                                                const GemmPlan& plan,
                                                                Backend& backend);

  /// For a stream that is not being captured.
  [[nodiscard]] const DirectRoad& eager() const noexcept { return eager_; }
  /// For a capture of the caller's: without scratch if any choice of candidates needs none, else
  /// eager(). Made when first asked for, by a backend of `make_backend`, where and as above.
  using BackendMaker = std::unique_ptr<Backend> (*)(int device);
  [[nodiscard]] Result<const DirectRoad*> captured(const cuda::Api& api, BackendMaker make_backend);

  /// Whether an output of `call`, one with this plan's key, might share memory with another
  /// operand: then planning it decides. Looks at first and last bytes only.
  [[nodiscard]] bool may_overlap(const DirectCall& call) const noexcept;
  /// Whether the operand in `slot` has memory that is read or written.
  [[nodiscard]] bool touches(std::size_t slot) const noexcept { return touched_[slot]; }

  /// The road's addresses for the operands of `call` and scratch at `scratch`, in `addresses`,
  /// whose storage is used again. May throw std::bad_alloc where that is too small.
  void bind(const DirectRoad& road, const DirectCall& call, void* scratch,
            AddressMap& addresses) const;

 private:
  explicit DirectPlan(GemmPlan prototype) noexcept : prototype_(std::move(prototype)) {}
  [[nodiscard]] DirectRoad road(std::vector<std::shared_ptr<Step>> steps) const;
  [[nodiscard]] Result<std::vector<LoweredTask>> lower(const cuda::Api& api, Backend& backend,
                                                       bool recalls) const;

  GemmPlan prototype_;  // the call over the addresses that stand for its operands
  std::array<void*, DirectCall::kMostSlots> places_{};
  std::array<std::size_t, DirectCall::kMostSlots> bytes_{};  // from the first to past the last
  std::array<bool, DirectCall::kMostSlots> touched_{};
  std::vector<std::size_t> mapped_;  // slots with a place of their own, by ascending place
  bool in_place_ = false;
  DirectRoad eager_;
  std::mutex mutex_;  // guards captured_
  std::optional<DirectRoad> captured_;
};

}  // namespace ai::detail
