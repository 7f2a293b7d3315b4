#pragma once

#include <cstddef>

#include "ai/backend.hpp"

namespace ai::kernels {

/// What was found best for one task, asked for where there is something to choose. Borrows the
/// Recall.
class TaskRecall {
 public:
  TaskRecall() noexcept = default;  ///< nothing is known
  TaskRecall(const Recall& recall, std::size_t task) noexcept : recall_(&recall), task_(task) {}

  /// Null where nothing is known. Valid until anything else is asked.
  [[nodiscard]] const RecalledCandidate* operator()() const {
    return recall_ != nullptr && *recall_ ? (*recall_)(task_) : nullptr;
  }

 private:
  const Recall* recall_ = nullptr;
  std::size_t task_ = 0;
};

}  // namespace ai::kernels
