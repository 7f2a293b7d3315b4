#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

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

/// The upper one of two. Precondition: there are times.
[[nodiscard]] double median(std::vector<double> times);

/// An execution above this is long.
inline constexpr double kLongUs = 1e3;

/// One candidate as an instantiated chain of copies, ready to be replayed and timed.
struct TimedChain {
  cuda::OwnedGraphExec exec;
  Effort effort = {};
  double first_us = 0;  ///< of one execution, at first sight
};

/// Times work on one stream, by events of the device.
class Stopwatch {
 public:
  [[nodiscard]] static Result<Stopwatch> make(const cuda::Api& api, cudaStream_t stream) noexcept;

  /// Microseconds of one execution outside a graph, the quicker of two or three unless it is long:
  /// the first also pays for what is loaded late. Launches count in: good for nothing but long
  /// work. Work that is long and not much above the `known_us` of other work of its kind is run
  /// once. May throw std::bad_alloc, as may chain.
  [[nodiscard]] Result<double> rough(std::span<const std::shared_ptr<Step>> steps,
                                     const AddressMap& addresses, double known_us) const;
  /// `steps` as a chain, for work of about `rough_us`. Short work is replayed twice, which gives
  /// `first_us`; long work is not run.
  [[nodiscard]] Result<TimedChain> chain(std::span<const std::shared_ptr<Step>> steps,
                                         const AddressMap& addresses, double rough_us) const;
  /// Replays `chain` until the clock `now` shows `end`: a GPU at rest is slow.
  [[nodiscard]] Status warm(const TimedChain& chain, double end,
                            const std::function<double()>& now) const;
  /// Microseconds of one execution, over a few replays back to back.
  [[nodiscard]] Result<double> time(const TimedChain& chain) const;

 private:
  /// Microseconds from here to the end of what `enqueue` enqueues.
  [[nodiscard]] Result<double> elapsed(const std::function<Status()>& enqueue) const;
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
