#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "capture/scratch.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// What the inputs of a trial hold.
enum class TrialData {
  Plain,    ///< finite values
  WithNaN,  ///< and NaN in a few places of every input
  WithInf,  ///< and both infinities
};
inline constexpr TrialData kTrialData[] = {TrialData::Plain, TrialData::WithNaN,
                                           TrialData::WithInf};

/// For each output the elements that are compared: all, or, of more than 8 MiB, those of 8 MiB
/// spread over it.
using TrialOutputs = std::vector<std::vector<float>>;

/// Runs candidates of one task on scratch memory and reads back what they wrote.
class Trial {
 public:
  /// `scratch`: layout.bytes() bytes, 256-byte aligned. `stream` is the caller's of this class.
  /// Values are in [-scale, scale].
  Trial(const cuda::Api& api, cudaStream_t stream, const ScratchLayout& layout,
        TrialOperands operands, void* scratch, float scale = 1);

  /// Fills all scratch anew: inputs with `data`, outputs that nobody reads with NaN, the state of
  /// steps with zeros.
  [[nodiscard]] Status fill(TrialData data);
  /// Whether scratch, the state of steps included, may hold anything since the last fill.
  [[nodiscard]] bool fill_failed() const noexcept { return fill_failed_; }
  /// Fills, runs `candidate` to its end and reads the outputs.
  [[nodiscard]] Result<TrialOutputs> run(const Candidate& candidate, TrialData data);

  /// Why `got` cannot come from the same computation as `expected`; empty if it can.
  [[nodiscard]] std::string difference(const TrialOutputs& expected, const TrialOutputs& got) const;

  [[nodiscard]] const AddressMap& addresses() const noexcept { return addresses_; }

 private:
  [[nodiscard]] Status plant(TrialData data);
  [[nodiscard]] Status poison();
  [[nodiscard]] Status set_all(std::span<const MemoryRange> ranges, int byte);
  [[nodiscard]] Result<TrialOutputs> read();

  const cuda::Api& api_;
  cudaStream_t stream_;
  TrialOperands operands_;
  std::vector<MemoryRange> state_;
  std::byte* scratch_;
  std::size_t bytes_;
  AddressMap addresses_;
  std::vector<float> pattern_;
  bool fill_failed_ = false;
};

/// Why `got` is not `expected` up to f32 rounding: an element further away than 1e-4 of its own
/// size and of the largest (as operands rounded to TF32 make one), or NaN or an infinity where the
/// other is not. Empty if it is.
[[nodiscard]] std::string difference(std::span<const float> expected, std::span<const float> got);

}  // namespace ai::detail
