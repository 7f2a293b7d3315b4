#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ai/memory.hpp"
#include "capture/direct_call.hpp"
#include "capture/direct_plan.hpp"
#include "capture/direct_replay.hpp"

namespace ai::detail {

/// A call that a thread has made lately: made again, over the same pointers, nothing of it has to
/// be looked at again.
struct RecentCall {
  // First what tells calls apart soonest.
  bool is_kept = false;        // by the cache of plans: else it is not made again from here
  std::uint64_t last_use = 0;  // of the thread's calls
  std::array<const void*, DirectCall::kMostSlots> pointers{};
  DirectKey key;
  std::shared_ptr<DirectPlan> plan;  // null: of no call
  std::uint64_t clock = 0;           // of that cache: when it moves, uses have to be noted
  AddressMap addresses;              // the plan's eager road over the pointers
  const void* scratch = nullptr;     // and over this
  int uses = 0;                      // that were enqueued step by step
  std::unique_ptr<DirectReplay> replay;
  bool may_replay = false;  // and did not fail to

  [[nodiscard]] bool is(const DirectCall& call, const DirectKey& of_call) const noexcept;
  /// Becomes a call that was not made yet. May throw std::bad_alloc, and then is of no call.
  void become(const DirectCall& call, const DirectKey& of_call, std::shared_ptr<DirectPlan> by);
  void forget() noexcept;
};

/// The calls that one thread has made lately.
class RecentCalls {
 public:
  static constexpr std::size_t kMost = 32;

  /// Those of this thread, of which none is older than `epoch`. Null while the thread ends and its
  /// own objects are gone already, when other objects may still make calls. May throw
  /// std::bad_alloc.
  [[nodiscard]] static RecentCalls* of_this_thread(std::uint64_t epoch);
  /// Forgets those of this thread.
  static void forget_here() noexcept;

  /// Null where the call is not among them.
  [[nodiscard]] RecentCall* find(const DirectCall& call, const DirectKey& key) noexcept;
  /// The one longest unused, whose place another call may take.
  [[nodiscard]] RecentCall& oldest() noexcept;

 private:
  void forget() noexcept;

  std::array<RecentCall, kMost> calls_;
  std::size_t latest_ = 0;  // where the search begins: calls tend to come again in one order
  std::uint64_t epoch_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace ai::detail
