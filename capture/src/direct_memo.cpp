#include "capture/direct_memo.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace ai::detail {

bool RecentCall::is(const DirectCall& call, const DirectKey& of_call) const noexcept {
  if (!is_kept || !(key == of_call)) return false;
  for (std::size_t slot = 0; slot < call.slots(); ++slot) {
    const Tensor* const operand = call.operand(slot);
    if (operand != nullptr && operand->data != pointers[slot]) return false;
  }
  return true;
}

void RecentCall::become(const DirectCall& call, const DirectKey& of_call,
                        std::shared_ptr<DirectPlan> by) {
  forget();
  by->bind(by->eager(), call, nullptr, addresses);
  key = of_call;
  for (std::size_t slot = 0; slot < call.slots(); ++slot) {
    const Tensor* const operand = call.operand(slot);
    pointers[slot] = operand != nullptr ? operand->data : nullptr;
  }
  may_replay = DirectReplay::suits(by->eager());
  plan = std::move(by);
}

void RecentCall::forget() noexcept {
  replay.reset();
  plan.reset();
  is_kept = false;
  scratch = nullptr;
  uses = 0;
  may_replay = false;
}

namespace {

struct ThisThread {
  RecentCalls* calls = nullptr;
  bool is_over = false;
};
constinit thread_local ThisThread this_thread;

/// The thread that a process begins with, or is left with after a fork. Its objects end with the
/// process, at exit: the caller may have reset the device by then, or be a fork that has none.
bool is_main_thread() noexcept {
  return ::syscall(SYS_gettid) == ::getpid();
}

struct EndOfThread {
  ~EndOfThread() {
    this_thread.is_over = true;
    if (is_main_thread()) return;  // what is left goes with the process
    delete std::exchange(this_thread.calls, nullptr);
  }
  void await() noexcept {}
};
thread_local EndOfThread end_of_thread;

}  // namespace

RecentCalls* RecentCalls::of_this_thread(std::uint64_t epoch) {
  if (this_thread.is_over) return nullptr;
  if (this_thread.calls == nullptr) {
    end_of_thread.await();
    this_thread.calls = new RecentCalls;
  }
  RecentCalls& calls = *this_thread.calls;
  if (calls.epoch_ != epoch) {
    calls.forget();
    calls.epoch_ = epoch;
  }
  return &calls;
}

void RecentCalls::forget_here() noexcept {
  if (!this_thread.is_over && this_thread.calls != nullptr) this_thread.calls->forget();
}

void RecentCalls::forget() noexcept {
  for (auto& set : sets_) {
    for (RecentCall& call : set) call.forget();
  }
}

std::size_t RecentCalls::set_of(const DirectCall& call, const DirectKey& key) noexcept {
  static_assert(kSets == 8);  // three bits
  const Tensor* output = nullptr;
  for (std::size_t slot = call.first_output(); output == nullptr && slot < call.slots(); ++slot) {
    output = call.operand(slot);
  }
  const auto address = output != nullptr ? reinterpret_cast<std::uintptr_t>(output->data) : 0;
  const std::uint64_t mixed = (key.hash() ^ address) * 0x9E3779B97F4A7C15U;
  return static_cast<std::size_t>(mixed >> 61);
}

RecentCall* RecentCalls::find(const DirectCall& call, const DirectKey& key) noexcept {
  for (RecentCall& recent : sets_[set_of(call, key)]) {
    if (!recent.is(call, key)) continue;
    recent.last_use = ++clock_;
    return &recent;
  }
  return nullptr;
}

RecentCall& RecentCalls::oldest(const DirectCall& call, const DirectKey& key) noexcept {
  auto& set = sets_[set_of(call, key)];
  RecentCall* oldest = set.data();
  for (RecentCall& recent : set) {
    if (recent.last_use < oldest->last_use) oldest = &recent;
  }
  oldest->last_use = ++clock_;
  return *oldest;
}

}  // namespace ai::detail
