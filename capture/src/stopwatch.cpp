#include "capture/stopwatch.hpp"

#include <algorithm>

#include "capture/enqueue.hpp"
#include "capture/recorder.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

constexpr int kCopies = 10;
constexpr int kReplays = 5;
constexpr double kChainUs = 1e3;
constexpr double kMeasurementUs = 5e3;
// A first run that takes longer is not what is loaded late.
constexpr double kLoadingUs = 50e3;
// Nor has one loaded much that takes little more than other long work of its kind.
constexpr double kNearKnown = 1.25;

}  // namespace

Effort effort_for(double execution_us) noexcept {
  const auto fit = [](double total, double one, int most) {
    return total >= one * most ? most : std::max(1, static_cast<int>(total / one));
  };
  const int copies = fit(kChainUs, execution_us, kCopies);
  const int replays = fit(kMeasurementUs, execution_us * copies, kReplays);
  return replays > 1 ? Effort{copies, replays, 5, 15} : Effort{copies, replays, 3, 3};
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Result<Stopwatch> Stopwatch::make(const cuda::Api& api, cudaStream_t stream) noexcept {
  Result<cuda::OwnedEvent> begin = cuda::make_event(api, true);
  if (!begin) return begin.status();
  Result<cuda::OwnedEvent> end = cuda::make_event(api, true);
  if (!end) return end.status();
  return Stopwatch(api, stream, std::move(*begin), std::move(*end));
}

Result<double> Stopwatch::rough(std::span<const std::shared_ptr<Step>> steps,
                                const AddressMap& addresses, double known_us) const {
  const auto enqueue_all = [&]() -> Status {
    for (const std::shared_ptr<Step>& step : steps) {
      AI_RETURN_IF_ERROR(enqueue(*step, addresses, stream_));
    }
    return {};
  };
  Result<double> least = elapsed(enqueue_all);
  if (least && known_us > kLongUs && *least < kNearKnown * known_us) return least;
  for (int again = 0; again < 2 && least && *least < kLoadingUs; ++again) {
    const Result<double> once = elapsed(enqueue_all);
    if (!once) return once;
    const bool is_sure = *once <= kChainUs / kCopies || *once > 0.8 * *least;
    *least = std::min(*least, *once);
    if (is_sure) break;
  }
  return least;
}

Result<TimedChain> Stopwatch::chain(std::span<const std::shared_ptr<Step>> steps,
                                    const AddressMap& addresses, double rough_us) const {
  const Effort effort = effort_for(rough_us);
  Result<cuda::OwnedGraph> graph = record_chain(*api_, stream_, steps, addresses, effort.copies);
  if (!graph) return graph.status();
  cudaGraphExec_t exec = nullptr;
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_instantiate, &exec, graph->get(), 0);
  TimedChain chain{cuda::OwnedGraphExec(*api_, exec), effort, rough_us};
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_upload, exec, stream_);
  for (int i = 0; i < 2 && effort.copies > 1; ++i) {
    const Result<double> once = elapsed(chain, 1);
    if (!once) return once.status();
    const double one = *once / effort.copies;
    chain.first_us = i == 0 ? one : std::min(chain.first_us, one);
  }
  return chain;
}

Status Stopwatch::warm(const TimedChain& chain, double end,
                       const std::function<double()>& now) const {
  while (now() < end) {
    for (int i = 0; i < chain.effort.replays; ++i) {
      AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
    }
    AI_CUDA_RETURN_IF_ERROR(*api_, stream_synchronize, stream_);
  }
  return {};
}

Result<double> Stopwatch::time(const TimedChain& chain) const {
  const Effort& effort = chain.effort;
  // A replay ahead fills the queue, so that none of the timed ones waits for the host. A single
  // timed one is so long that such a wait is nothing to it.
  if (effort.replays > 1) {
    AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
  }
  Result<double> total = elapsed(chain, effort.replays);
  if (!total) return total;
  return *total / (effort.replays * effort.copies);
}

Result<double> Stopwatch::elapsed(const TimedChain& chain, int launches) const {
  return elapsed([&]() -> Status {
    for (int i = 0; i < launches; ++i) {
      AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
    }
    return {};
  });
}

Result<double> Stopwatch::elapsed(const std::function<Status()>& enqueue) const {
  AI_CUDA_RETURN_IF_ERROR(*api_, event_record, begin_.get(), stream_);
  AI_RETURN_IF_ERROR(enqueue());
  AI_CUDA_RETURN_IF_ERROR(*api_, event_record, end_.get(), stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, event_synchronize, end_.get());
  float milliseconds = 0;
  AI_CUDA_RETURN_IF_ERROR(*api_, event_elapsed_time, &milliseconds, begin_.get(), end_.get());
  return static_cast<double>(milliseconds) * 1e3;
}

}  // namespace ai::detail
