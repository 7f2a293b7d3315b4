#include "capture/stopwatch.hpp"

#include <algorithm>

#include "capture/recorder.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

constexpr int kCopies = 10;
constexpr int kReplays = 5;
constexpr double kChainUs = 1e3;
constexpr double kMeasurementUs = 5e3;

}  // namespace

Effort effort_for(double execution_us) noexcept {
  const auto fit = [](double total, double one, int most) {
    return total >= one * most ? most : std::max(1, static_cast<int>(total / one));
  };
  const int copies = fit(kChainUs, execution_us, kCopies);
  const int replays = fit(kMeasurementUs, execution_us * copies, kReplays);
  return replays > 1 ? Effort{copies, replays, 5, 15} : Effort{copies, replays, 3, 3};
}

Result<Stopwatch> Stopwatch::make(const cuda::Api& api, cudaStream_t stream) noexcept {
  Result<cuda::OwnedEvent> begin = cuda::make_event(api, true);
  if (!begin) return begin.status();
  Result<cuda::OwnedEvent> end = cuda::make_event(api, true);
  if (!end) return end.status();
  return Stopwatch(api, stream, std::move(*begin), std::move(*end));
}

Result<TimedChain> Stopwatch::chain(std::span<const std::shared_ptr<Step>> steps,
                                    const AddressMap& addresses) const {
  Result<TimedChain> single = instantiate(steps, addresses, 1);
  if (!single) return single;
  // A first launch also pays for what is loaded late: work that then seems long gets more chances.
  for (int i = 0; i < 3; ++i) {
    Result<double> once = elapsed(*single, 1);
    if (!once) return once.status();
    single->rough_us = i == 0 ? *once : std::min(single->rough_us, *once);
    if (single->rough_us >= kMeasurementUs || single->rough_us <= kChainUs / kCopies) break;
  }
  single->effort = effort_for(single->rough_us);
  if (single->effort.copies == 1) return single;
  Result<TimedChain> chain = instantiate(steps, addresses, single->effort.copies);
  if (!chain) return chain;
  chain->effort = single->effort;
  chain->rough_us = single->rough_us;
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain->exec.get(), stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, stream_synchronize, stream_);
  return chain;
}

Result<TimedChain> Stopwatch::instantiate(std::span<const std::shared_ptr<Step>> steps,
                                          const AddressMap& addresses, int copies) const {
  Result<cuda::OwnedGraph> graph = record_chain(*api_, stream_, steps, addresses, copies);
  if (!graph) return graph.status();
  cudaGraphExec_t exec = nullptr;
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_instantiate, &exec, graph->get(), 0);
  TimedChain chain{cuda::OwnedGraphExec(*api_, exec)};
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_upload, exec, stream_);
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
  AI_CUDA_RETURN_IF_ERROR(*api_, event_record, begin_.get(), stream_);
  for (int i = 0; i < launches; ++i) {
    AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
  }
  AI_CUDA_RETURN_IF_ERROR(*api_, event_record, end_.get(), stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, event_synchronize, end_.get());
  float milliseconds = 0;
  AI_CUDA_RETURN_IF_ERROR(*api_, event_elapsed_time, &milliseconds, begin_.get(), end_.get());
  return static_cast<double>(milliseconds) * 1e3;
}

}  // namespace ai::detail
