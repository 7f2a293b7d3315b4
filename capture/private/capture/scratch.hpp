#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ai/backend.hpp"
#include "capture/lowering.hpp"
#include "capture/workspace.hpp"

namespace ai::detail {

/// A place for every byte that any applicable candidate of a task touches, user memory and symbolic
/// storage alike, in one block of scratch memory. Bytes that lie together stay together, and each
/// address keeps its value modulo 256, so kernels see the alignment they will see later.
class ScratchLayout {
 public:
  explicit ScratchLayout(const Task& task);

  [[nodiscard]] std::size_t bytes() const noexcept { return plan_.bytes; }
  /// Over a 256-byte aligned block.
  [[nodiscard]] AddressMap over(void* base) const { return plan_.over(base); }
  /// Step::state() of all steps: zero before a trial.
  [[nodiscard]] const std::vector<MemoryRange>& state() const noexcept { return state_; }

 private:
  WorkspacePlan plan_;
  std::vector<MemoryRange> state_;
};

/// Symbolic storage that steps of more than one task use: what one task hands to another there is
/// an operand of both, not scratch. May throw std::bad_alloc.
[[nodiscard]] std::vector<MemoryRange> storage_between(std::span<const LoweredTask> tasks);

/// The operands of a task, as its fallback uses them. Scratch is not among them: that is symbolic
/// storage outside of `values`, which are the temporaries and what lies between tasks.
struct TrialOperands {
  std::vector<MemoryRange> inputs;   ///< read before they are written
  std::vector<MemoryRange> outputs;  ///< written
  std::vector<MemoryRange> fresh;    ///< outputs that are not inputs: old contents do not count
};
[[nodiscard]] TrialOperands trial_operands(const Candidate& fallback,
                                           std::span<const MemoryRange> values);

}  // namespace ai::detail
