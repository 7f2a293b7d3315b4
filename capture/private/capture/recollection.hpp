#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ai/backend.hpp"
#include "ai/tuning.hpp"
#include "capture/lowering.hpp"
#include "capture/tuning_cache.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// What the tuning file at `path` knows, for one use of it. Neither the file nor the device is
/// looked at before something is asked or stored. Whatever is wrong with the file is told to
/// `on_warning` (what that throws is dropped) and the file then is as good as none. All may throw
/// std::bad_alloc.
class Recollection {
 public:
  /// `path` empty: there is no file. `api` and `backend` outlive this.
  Recollection(const cuda::Api& api, int device, Backend& backend, std::string path,
               TuningWarningHandler on_warning);
  Recollection(const Recollection&) = delete;
  Recollection& operator=(const Recollection&) = delete;

  /// Null where nothing is known; valid until the next call. What ran out of time when it was
  /// measured is not known where there are now `time_s`, clearly more than then.
  [[nodiscard]] const StoredChoice* find(const std::string& problem, double time_s = 0);
  /// Whether there is an entry, be it one that find does not give.
  [[nodiscard]] bool has(const std::string& problem);
  void store(const TuningCache::Choices& choices);
  void warn(const Status& status) const noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[nodiscard]] bool is_usable();

  const cuda::Api& api_;
  const int device_;
  Backend& backend_;
  const std::string path_;
  const TuningWarningHandler on_warning_;
  std::optional<bool> usable_;  // nullopt: not looked at yet
  std::shared_ptr<TuningCache> cache_;
  TuningMachine machine_;
  std::optional<StoredChoice> found_;
};

}  // namespace ai::detail
