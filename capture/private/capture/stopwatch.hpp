#pragma once

#include <functional>
#include <memory>
#include <span>

#include "ai/step.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// How often something is run to time it: short work until its noise drowns, long work no oftener
/// than it needs.
struct Effort {
  int copies = 1;             ///< in one chain
  int replays = 1;            ///< of the chain in one measurement
  int repetitions = 1;        ///< of the measurement; their median counts
  int final_repetitions = 1;  ///< of the measurement in the final round
};
[[nodiscard]] Effort effort_for(double execution_us) noexcept;

/// One candidate as an instantiated chain of copies, ready to be replayed and timed.
struct TimedChain {
  cuda::OwnedGraphExec exec;
  Effort effort = {};
  double rough_us = 0;  ///< of one execution, launch included: good for nothing but long work
};

/// Times replays on one stream, by events of the device.
class Stopwatch {
 public:
  [[nodiscard]] static Result<Stopwatch> make(const cuda::Api& api, cudaStream_t stream) noexcept;

  /// `steps` as a chain, after one execution (of short work up to three) that shows how long it
  /// has to be. May throw std::bad_alloc.
  [[nodiscard]] Result<TimedChain> chain(std::span<const std::shared_ptr<Step>> steps,
                                         const AddressMap& addresses) const;
  /// Replays `chain` until the clock `now` shows `end`: a GPU at rest is slow.
  [[nodiscard]] Status warm(const TimedChain& chain, double end,
                            const std::function<double()>& now) const;
  /// Microseconds of one execution, over a few replays back to back.
  [[nodiscard]] Result<double> time(const TimedChain& chain) const;

 private:
  [[nodiscard]] Result<TimedChain> instantiate(std::span<const std::shared_ptr<Step>> steps,
                                               const AddressMap& addresses, int copies) const;
  /// Microseconds from here to the end of `launches` launches.
  [[nodiscard]] Result<double> elapsed(const TimedChain& chain, int launches) const;

  Stopwatch(const cuda::Api& api, cudaStream_t stream, cuda::OwnedEvent begin,
            cuda::OwnedEvent end) noexcept
      : api_(&api), stream_(stream), begin_(std::move(begin)), end_(std::move(end)) {}

  const cuda::Api* api_;
  cudaStream_t stream_;
  cuda::OwnedEvent begin_;
  cuda::OwnedEvent end_;
};

}  // namespace ai::detail
