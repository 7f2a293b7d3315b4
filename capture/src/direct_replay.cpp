#include "capture/direct_replay.hpp"

#include <new>
#include <utility>

#include "capture/graph_exec.hpp"
#include "capture/recorder.hpp"
#include "capture/streams.hpp"
#include "cuda/driver_streams.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

constexpr int kRetries = 3;  // of a recording that another thread breaks

}  // namespace

DirectReplay::DirectReplay(const cuda::Api& api, const cuda::DriverLaunch& driver,
                           int device) noexcept
    : api_(api),
      driver_(driver),
      device_(device),
      before_(count_.fetch_add(1, std::memory_order_relaxed)) {}

// Where it cannot be made sure that nothing uses the scratch any more, it is never freed.
DirectReplay::~DirectReplay() {
  const cuda::CaptureModeGuard relaxed(api_);
  if (is_launched_ && scratch_.data() != nullptr && !leave_scratch_to_last_launch().ok()) {
    scratch_.abandon();
  }
  exec_.reset();  // does not wait for a running launch
  graph_.reset();
  count_.fetch_sub(1, std::memory_order_relaxed);
}

std::unique_ptr<DirectReplay> DirectReplay::make(const cuda::Api& api,
                                                 const cuda::DriverLaunch& driver,
                                                 const DirectPlan& plan,
                                                 const DirectCall& call) noexcept try {
  const cuda::CaptureModeGuard relaxed(api);
  std::unique_ptr<DirectReplay> made(new DirectReplay(api, driver, call.device()));
  if (made->before_ >= limit() || !made->build(plan, call).ok()) return nullptr;
  return made;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// One step after the other, as without a graph: branches would ask for more scratch, and a chain is
// what costs the host least.
Status DirectReplay::build(const DirectPlan& plan, const DirectCall& call) {
  const DirectRoad& road = plan.eager();
  Result<cuda::DeviceMemory> scratch =
      cuda::DeviceMemory::allocate(api_, device_, road.scratch.bytes);
  AI_RETURN_IF_ERROR(scratch.status());
  scratch_ = std::move(*scratch);
  AddressMap addresses;
  plan.bind(road, call, scratch_.data(), addresses);
  std::vector<RecordedStep> steps;
  std::vector<std::vector<int>> chain;
  for (const std::shared_ptr<Step>& step : road.steps) {
    chain.emplace_back();
    if (!steps.empty()) chain.back().push_back(static_cast<int>(steps.size()) - 1);
    steps.push_back({step.get(), &addresses, false});
  }
  const Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
  AI_RETURN_IF_ERROR(stream.status());
  Result<Recording> recording = record(api_, stream->get(), steps, chain, kRetries, Describe::No);
  AI_RETURN_IF_ERROR(recording.status());
  if (scratch_.data() != nullptr) {
    std::size_t count = 0;
    AI_CUDA_RETURN_IF_ERROR(api_, graph_get_nodes, recording->graph.get(), nullptr, &count);
    nodes_.resize(count);
    AI_CUDA_RETURN_IF_ERROR(api_, graph_get_nodes, recording->graph.get(), nodes_.data(), &count);
  }
  Result<cuda::OwnedGraphExec> exec = instantiate(api_, recording->graph.get(), stream->get());
  AI_RETURN_IF_ERROR(exec.status());
  exec_ = std::move(*exec);
  if (scratch_.data() != nullptr) graph_ = std::move(recording->graph);
  return {};
}

Status DirectReplay::leave_scratch_to_last_launch() noexcept {
  const cuda::DeviceGuard guard(api_, device_);
  AI_RETURN_IF_ERROR(guard.status());
  const Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
  AI_RETURN_IF_ERROR(stream.status());
  AI_RETURN_IF_ERROR(fence(api_, exec_.get(), nodes_, {}, stream->get()));
  scratch_.free_behind(stream->get());
  return {};
}

// CUDA would launch a graph on a stream of any device.
Status DirectReplay::launch(Stream stream) {
  if (stream != stream_) {
    AI_RETURN_IF_ERROR(check_owner(api_, {}, stream, device_));
    stream_ = stream;
  }
  is_launched_ = true;
  if (driver_ && !cuda::is_forked()) {
    const CUresult code = driver_.graph_launch(exec_.get(), stream);
    if (code == CUDA_SUCCESS) return {};
    // This thread has not made the runtime's context its own: the runtime does that.
    if (code != CUDA_ERROR_INVALID_CONTEXT) {
      return cuda::describe(api_, static_cast<cudaError_t>(code), "cuGraphLaunch");
    }
  }
  AI_CUDA_RETURN_IF_ERROR(api_, graph_launch, exec_.get(), stream);
  return {};
}

}  // namespace ai::detail
