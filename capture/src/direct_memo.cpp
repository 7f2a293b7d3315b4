#include "capture/direct_memo.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace ai::detail {

bool RecentCall::is(const DirectCall& call, const DirectKey& of_call) const noexcept {
  if (!is_kept) return false;
  for (std::size_t slot = 0; slot < call.slots(); ++slot) {
    const Tensor* const operand = call.operand(slot);
    if (operand != nullptr && operand->data != pointers[slot]) return false;
  }
  return key == of_call;
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
  for (RecentCall& call : calls_) call.forget();
}

RecentCall* RecentCalls::find(const DirectCall& call, const DirectKey& key) noexcept {
  for (std::size_t i = 0; i < kMost; ++i) {
    const std::size_t at = (latest_ + i) % kMost;
    if (!calls_[at].is(call, key)) continue;
    latest_ = at;
    calls_[at].last_use = ++clock_;
    return &calls_[at];
  }
  return nullptr;
}

RecentCall& RecentCalls::oldest() noexcept {
  std::size_t oldest = 0;
  for (std::size_t i = 1; i < kMost; ++i) {
    if (calls_[i].last_use < calls_[oldest].last_use) oldest = i;
  }
  latest_ = oldest;
  calls_[oldest].last_use = ++clock_;
  return calls_[oldest];
}

}  // namespace ai::detail
