#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "ai/status.hpp"
#include "cuda/dynamic_library.hpp"

namespace ai::cuda {

/// A table of functions that is loaded when it is first asked for. Success is kept, and so is
/// Unsupported, which another attempt would not change; after any other failure the next call tries
/// again. Thread-safe. The table lives as long as this does.
template <typename Table>
class LoadOnce {
 public:
  using Load = Result<Table> (*)(const LoaderApi& loader) noexcept;
  explicit LoadOnce(Load load) noexcept : load_(load) {}

  [[nodiscard]] Result<const Table*> get(const LoaderApi& loader) {
    const std::scoped_lock lock(mutex_);
    if (!outcome_) {
      Result<Table> loaded = load_(loader);
      if (!loaded && loaded.status().code() != StatusCode::Unsupported) return loaded.status();
      outcome_.emplace(std::move(loaded));
    }
    if (!*outcome_) return outcome_->status();
    return &**outcome_;
  }

 private:
  Load load_;
  std::mutex mutex_;
  std::optional<Result<Table>> outcome_;
};

}  // namespace ai::cuda
