#include "capture/stopwatch.hpp"

#include "capture/recorder.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

constexpr int kCopies = 10;
constexpr int kReplays = 5;

}  // namespace

Result<Stopwatch> Stopwatch::make(const cuda::Api& api, cudaStream_t stream) noexcept {
  Result<cuda::OwnedEvent> begin = cuda::make_event(api, true);
  if (!begin) return begin.status();
  Result<cuda::OwnedEvent> end = cuda::make_event(api, true);
  if (!end) return end.status();
  return Stopwatch(api, stream, std::move(*begin), std::move(*end));
}

Result<TimedChain> Stopwatch::chain(std::span<const std::shared_ptr<Step>> steps,
                                    const AddressMap& addresses) const {
  Result<cuda::OwnedGraph> graph = record_chain(*api_, stream_, steps, addresses, kCopies);
  if (!graph) return graph.status();
  cudaGraphExec_t exec = nullptr;
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_instantiate, &exec, graph->get(), 0);
  TimedChain chain{cuda::OwnedGraphExec(*api_, exec), kCopies};
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_upload, exec, stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, exec, stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, stream_synchronize, stream_);
  return chain;
}

Status Stopwatch::warm(const TimedChain& chain, double seconds,
                       const std::function<double()>& now) const {
  for (const double end = now() + seconds; now() < end;) {
    for (int i = 0; i < kReplays; ++i) {
      AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
    }
    AI_CUDA_RETURN_IF_ERROR(*api_, stream_synchronize, stream_);
  }
  return {};
}

Result<double> Stopwatch::time(const TimedChain& chain) const {
  // The first replay fills the queue, so that none of the timed ones waits for the host.
  AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, event_record, begin_.get(), stream_);
  for (int i = 0; i < kReplays; ++i) {
    AI_CUDA_RETURN_IF_ERROR(*api_, graph_launch, chain.exec.get(), stream_);
  }
  AI_CUDA_RETURN_IF_ERROR(*api_, event_record, end_.get(), stream_);
  AI_CUDA_RETURN_IF_ERROR(*api_, event_synchronize, end_.get());
  float milliseconds = 0;
  AI_CUDA_RETURN_IF_ERROR(*api_, event_elapsed_time, &milliseconds, begin_.get(), end_.get());
  return static_cast<double>(milliseconds) * 1e3 / (kReplays * chain.copies);
}

}  // namespace ai::detail
