#include "capture/recollection.hpp"

#include <utility>

#include "capture/tuning_machine.hpp"

namespace ai::detail {
namespace {

// By what factor the time must have grown.
constexpr double kClearlyMore = 1.5;

}  // namespace

Recollection::Recollection(const cuda::Api& api, int device, Backend& backend, std::string path,
                           TuningWarningHandler on_warning)
    : api_(api),
      device_(device),
      backend_(backend),
      path_(std::move(path)),
      on_warning_(std::move(on_warning)) {}

const StoredChoice* Recollection::find(const std::string& problem, double time_s) {
  if (!is_usable()) return nullptr;
  found_ = cache_->find(machine_, problem);
  if (!found_) return nullptr;
  const bool is_short = found_->budget_s > 0 && time_s > kClearlyMore * found_->budget_s;
  return is_short ? nullptr : &*found_;
}

bool Recollection::has(const std::string& problem) {
  return is_usable() && cache_->find(machine_, problem).has_value();
}

void Recollection::store(const TuningCache::Choices& choices) {
  if (choices.empty() || !is_usable()) return;
  warn(cache_->store(machine_, choices, on_warning_ != nullptr));
}

void Recollection::warn(const Status& status) const noexcept {
  if (status.ok() || !on_warning_) return;
  try {
    on_warning_(status);
  } catch (...) {  // the caller's own
  }
}

bool Recollection::is_usable() {
  if (usable_) return *usable_;
  usable_ = false;
  cache_ = TuningCache::at(path_);
  if (cache_ == nullptr) return false;
  Result<TuningMachine> machine = tuning_machine(api_, device_, backend_);
  if (!machine) {
    warn({machine.status().code(), "the tuning file " + path_ +
                                       " is not used, since nothing is known of this machine: " +
                                       machine.status().message()});
    return false;
  }
  machine_ = std::move(*machine);
  warn(cache_->refresh(on_warning_ != nullptr));
  usable_ = true;
  return true;
}

}  // namespace ai::detail
