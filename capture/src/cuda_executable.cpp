#include "capture/cuda_executable.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "capture/enqueue.hpp"
#include "capture/graph_exec.hpp"
#include "capture/guarded.hpp"
#include "capture/reclaim.hpp"
#include "capture/streams.hpp"
#include "cuda/driver_streams.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

// Not the thread's id, which another has once it has ended.
std::uint64_t this_thread() noexcept {
  static constinit std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

}  // namespace

CudaExecutable::CudaExecutable(const cuda::Api& api, Blueprint blueprint, CapturedGraph captured,
                               ExecutableInfo info) noexcept
    : Impl(std::move(blueprint), std::move(info)),
      api_(api),
      device_(blueprint_.device),
      driver_(cuda::driver_launch(api)),
      captured_(std::move(captured)) {}

// Where it cannot be made sure that nothing uses the memory any more, it is never freed.
CudaExecutable::~CudaExecutable() {
  const cuda::CaptureModeGuard relaxed(api_);
  if (enqueued_ && api_.event_synchronize(enqueued_.get()) != cudaSuccess) {
    (void)api_.get_last_error();
    abandon();
  }
  // CUDA may take its time to say that nothing uses a shared one any more.
  std::shared_ptr<const void> unused;
  if (!running_ && captured_.shared) unused.swap(captured_.shared.get()->held);
  if (running_ && captured_.owned != nullptr && !leave_to_last_launch().ok()) abandon();
  captured_.exec.reset();  // does not wait for a running launch
  captured_.updated.reset();
  captured_.graph.reset();
  captured_.owned.reset();
  captured_.shared = {};
  private_stream_.reset();
  reclaim(api_);
}

void CudaExecutable::abandon() noexcept {
  captured_.retained().workspace.abandon();
  captured_.shared.abandon();
  (void)captured_.owned.release();
}

Status CudaExecutable::fence(Stream stream) noexcept {
  AI_RETURN_IF_ERROR(empty_cooperative());
  return detail::fence(api_, captured_.exec.get(), captured_.nodes, captured_.cooperative, stream);
}

/// Cooperative kernels return at once from the next launch on.
Status CudaExecutable::empty_cooperative() noexcept {
  if (captured_.cooperative.empty()) return {};
  // No kernel has larger parameters.
  alignas(16) static constexpr std::array<std::byte, 32768> kZeros = {};
  void* parameters[] = {const_cast<std::byte*>(kZeros.data())};
  const cuda::DriverNodes driver = cuda::driver_nodes(api_);
  if (driver.exec_set_params == nullptr) return {StatusCode::Unsupported, {}};
  for (const cudaGraphNode_t node : captured_.cooperative) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    CUresult code = driver.get_params(node, &params);
    params.kernelParams = parameters;
    params.extra = nullptr;
    if (code == CUDA_SUCCESS) code = driver.exec_set_params(captured_.exec.get(), node, &params);
    if (code != CUDA_SUCCESS) {
      return cuda::describe(api_, static_cast<cudaError_t>(code), "cuGraphExecKernelNodeSetParams");
    }
  }
  return {};
}

Status CudaExecutable::leave_to_last_launch() noexcept {
  if (!captured_.exec) return {StatusCode::Invalid, {}};
  const cuda::DeviceGuard guard(api_, device_);
  AI_RETURN_IF_ERROR(guard.status());
  const Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
  AI_RETURN_IF_ERROR(stream.status());
  AI_RETURN_IF_ERROR(fence(stream->get()));
  captured_.owned->workspace.free_behind(stream->get());
  return retain_until_done(api_, stream->get(), captured_.owned);
}

Status CudaExecutable::launch(Stream stream) noexcept {
  if (cuda::is_default(stream)) return launch_on_device(stream, true);
  if (!driver_) [[unlikely]]
    return launch_by_runtime(stream);
  if (const std::optional<Status> status = launch_by_driver(stream)) [[likely]]
    return *status;
  return launch_on_device(stream, false);
}

/// Nothing where the runtime has to look at it.
std::optional<Status> CudaExecutable::launch_by_driver(Stream stream) noexcept {
  if (!driver_ || cuda::is_forked()) [[unlikely]]
    return std::nullopt;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver_.stream_is_capturing(stream, &status) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_NONE) [[unlikely]] {
    return std::nullopt;
  }
  const CUresult code = driver_.graph_launch(captured_.exec.get(), stream);
  if (code == CUDA_SUCCESS) [[likely]]
    return launched(stream);
  // This thread has not made the runtime's context its own yet: the runtime does that.
  if (code == CUDA_ERROR_INVALID_CONTEXT) return std::nullopt;
  return cuda::describe(api_, static_cast<cudaError_t>(code), "cuGraphLaunch");
}

Status CudaExecutable::launched(Stream stream) noexcept {
  last_stream_ = stream;
  launched_ = true;
  running_ = true;
  return {};
}

// A graph launch on a capturing stream would not only fail: it would destroy that capture.
Status CudaExecutable::check_stream(Stream stream) const noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t asked = api_.stream_is_capturing(stream, &status);
  if (asked != cudaSuccess) [[unlikely]]
    return unknown_state(api_, asked);
  if (status != cudaStreamCaptureStatusNone) [[unlikely]] {
    return plain_status(StatusCode::CaptureActive,
                        "the stream is being captured: use it after its capture has ended");
  }
  return {};
}

Status CudaExecutable::launch_by_runtime(Stream stream) noexcept {
  AI_RETURN_IF_ERROR(check_stream(stream));
  const cudaError_t code = api_.graph_launch(captured_.exec.get(), stream);
  if (code != cudaSuccess) [[unlikely]] {
    return cuda::to_status(api_, code, "cudaGraphLaunch");
  }
  return launched(stream);
}

Status CudaExecutable::launch_on_device(Stream stream, bool by_driver) noexcept {
  const cuda::DeviceGuard guard(api_, device_);
  AI_RETURN_IF_ERROR(guard.status());
  std::optional<Status> status;
  if (by_driver) status = launch_by_driver(stream);
  AI_RETURN_IF_ERROR(status ? *status : launch_by_runtime(stream));
  if (stream == cudaStreamPerThread) last_thread_ = this_thread();
  return {};
}

Status CudaExecutable::enqueue(Stream stream) noexcept try {
  const cuda::CaptureModeGuard relaxed(api_);
  const cuda::DeviceGuard guard(api_, device_);
  AI_RETURN_IF_ERROR(guard.status());
  AI_RETURN_IF_ERROR(check_stream(stream));
  AI_RETURN_IF_ERROR(check_owner(api_, {}, stream, device_));
  if (!enqueued_) {
    Result<cuda::OwnedEvent> event = cuda::make_event(api_, false);
    AI_RETURN_IF_ERROR(event.status());
    enqueued_ = std::move(event).value();
  }
  Status status = enqueue_steps(stream);
  // Also behind what a failed step has left running.
  Status marked =
      cuda::to_status(api_, api_.event_record(enqueued_.get(), stream), "cudaEventRecord");
  return status.ok() ? marked : status;
} catch (const std::bad_alloc&) {
  return {StatusCode::OutOfMemory, {}};
}

Status CudaExecutable::enqueue_steps(Stream stream) {
  for (const BoundStep& bound : blueprint_.steps) {
    const AddressMap& addresses = blueprint_.items[bound.item].addresses;
    AI_RETURN_IF_ERROR(detail::enqueue(*bound.step, addresses, stream));
    // A user step may have made another device current; the next step must not run there.
    AI_CUDA_RETURN_IF_ERROR(api_, set_device, device_);
  }
  return {};
}

Status CudaExecutable::wait() noexcept {
  Status status = wait_for_all();
  reclaim(api_);
  return status;
}

Status CudaExecutable::wait_for_all() noexcept {
  if (!launched_ && !enqueued_) return {};
  const cuda::CaptureModeGuard relaxed(api_);
  if (enqueued_) {
    AI_CUDA_RETURN_IF_ERROR(api_, event_synchronize, enqueued_.get());
    enqueued_.reset();
  }
  if (!launched_) return {};
  if (cuda::is_default(last_stream_)) {
    const cuda::DeviceGuard guard(api_, device_);
    AI_RETURN_IF_ERROR(guard.status());
    return wait_here();
  }
  return wait_here();
}

Status CudaExecutable::wait_here() noexcept {
  AI_RETURN_IF_ERROR(check_stream(last_stream_));
  AI_CUDA_RETURN_IF_ERROR(api_, stream_synchronize, last_stream_);
  // The per-thread stream of this thread need not be that of the launch.
  if (last_stream_ != cudaStreamPerThread || last_thread_ == this_thread()) {
    running_ = false;
  }
  return {};
}

void CudaExecutable::hold(std::shared_ptr<const void> what) noexcept {
  captured_.retained().held.swap(what);
}

}  // namespace ai::detail
