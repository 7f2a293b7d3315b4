#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ai::detail {

/// Values that are dear to make, kept by key; of more than `limit` the one longest unused goes.
/// Thread-safe: finding one takes a shared lock only.
template <typename Key, typename Value, typename Hash>
class PlanCache {
 public:
  explicit PlanCache(std::size_t limit) noexcept : limit_(limit) {}

  /// Null where there is none.
  [[nodiscard]] std::shared_ptr<Value> find(const Key& key) {
    const std::shared_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    const std::uint64_t now = clock_.load(std::memory_order_relaxed);
    std::atomic<std::uint64_t>& used = found->second.used;
    if (used.load(std::memory_order_relaxed) != now) used.store(now, std::memory_order_relaxed);
    return found->second.value;
  }

  /// Keeps `value`, instead of one that is there already. False where nothing is kept. May throw
  /// std::bad_alloc.
  bool insert(const Key& key, std::shared_ptr<Value> value) {
    std::shared_ptr<Value> dropped;  // dies after the lock is released
    const std::unique_lock lock(mutex_);
    clock_.fetch_add(1, std::memory_order_relaxed);
    if (limit_ == 0) return false;
    const auto existing = entries_.find(key);
    if (existing == entries_.end()) {
      if (entries_.size() >= limit_) dropped = drop_oldest();
      entries_.try_emplace(key, value, clock_.load(std::memory_order_relaxed));
    } else {
      dropped = std::exchange(existing->second.value, std::move(value));
    }
    return true;
  }
  /// Moves with each insertion: until then a use of a value that was found need not be noted again.
  [[nodiscard]] std::uint64_t clock() const noexcept {
    return clock_.load(std::memory_order_relaxed);
  }

  void clear() {
    Entries dropped;
    const std::unique_lock lock(mutex_);
    entries_.swap(dropped);
  }
  void set_limit(std::size_t limit) {
    std::vector<std::shared_ptr<Value>> dropped;  // die after the lock is released
    const std::unique_lock lock(mutex_);
    limit_ = limit;
    while (entries_.size() > limit_) dropped.push_back(drop_oldest());
  }
  [[nodiscard]] std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return entries_.size();
  }
  [[nodiscard]] std::size_t limit() const {
    const std::shared_lock lock(mutex_);
    return limit_;
  }

 private:
  /// The clock ticks with each insertion, so a use costs no write that others share.
  struct Entry {
    Entry(std::shared_ptr<Value> given, std::uint64_t now) : value(std::move(given)), used(now) {}
    std::shared_ptr<Value> value;
    std::atomic<std::uint64_t> used;
  };
  using Entries = std::unordered_map<Key, Entry, Hash>;

  std::shared_ptr<Value> drop_oldest() {
    auto oldest = entries_.begin();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->second.used.load(std::memory_order_relaxed) <
          oldest->second.used.load(std::memory_order_relaxed)) {
        oldest = entry;
      }
    }
    std::shared_ptr<Value> value = std::move(oldest->second.value);
    entries_.erase(oldest);
    return value;
  }

  mutable std::shared_mutex mutex_;
  Entries entries_;
  std::size_t limit_;
  std::atomic<std::uint64_t> clock_{0};
};

}  // namespace ai::detail
