#pragma once

#include <functional>
#include <memory>
#include <span>

#include "ai/step.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// One candidate as an instantiated chain of copies, ready to be replayed and timed.
struct TimedChain {
  cuda::OwnedGraphExec exec;
  int copies = 0;
};

/// Times replays on one stream, by events of the device.
class Stopwatch {
 public:
  [[nodiscard]] static Result<Stopwatch> make(const cuda::Api& api, cudaStream_t stream) noexcept;

  /// `steps` as a chain. May throw std::bad_alloc.
  [[nodiscard]] Result<TimedChain> chain(std::span<const std::shared_ptr<Step>> steps,
                                         const AddressMap& addresses) const;
  /// Replays `chain` for `seconds` by the clock `now`: a GPU at rest is slow.
  [[nodiscard]] Status warm(const TimedChain& chain, double seconds,
                            const std::function<double()>& now) const;
  /// Microseconds of one execution, over a few replays back to back.
  [[nodiscard]] Result<double> time(const TimedChain& chain) const;

 private:
  Stopwatch(const cuda::Api& api, cudaStream_t stream, cuda::OwnedEvent begin,
            cuda::OwnedEvent end) noexcept
      : api_(&api), stream_(stream), begin_(std::move(begin)), end_(std::move(end)) {}

  const cuda::Api* api_;
  cudaStream_t stream_;
  cuda::OwnedEvent begin_;
  cuda::OwnedEvent end_;
};

}  // namespace ai::detail
