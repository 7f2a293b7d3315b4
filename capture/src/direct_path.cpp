#include "capture/direct_path.hpp"

#include <array>
#include <string>
#include <utility>

#include "capture/cuda_capture.hpp"
#include "capture/enqueue.hpp"
#include "capture/reclaim.hpp"
#include "cuda/device_info.hpp"
#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

constexpr const char* kForwardNames[] = {"A", "B", "C", "bias", "Y", "Z"};
constexpr const char* kBackwardNames[] = {"A", "B", "C", "gY", "Z", "gA", "gB", "gC", "gBias"};

const char* name_of(const DirectCall& call, std::size_t slot) noexcept {
  return call.slots() == std::size(kForwardNames) ? kForwardNames[slot] : kBackwardNames[slot];
}

/// Pointers that this thread has lately asked CUDA about and found on a device: asking costs about
/// as much as everything else before a launch.
class KnownPointers {
 public:
  [[nodiscard]] bool holds(const void* pointer, int device, std::uint64_t epoch) const noexcept {
    for (const Entry& entry : entries_[index(pointer)]) {
      if (entry.pointer == pointer && entry.device == device && entry.epoch == epoch) return true;
    }
    return false;
  }
  void add(const void* pointer, int device, std::uint64_t epoch) noexcept {
    next_ = (next_ + 1) % kWays;
    entries_[index(pointer)][next_] = {pointer, device, epoch};
  }

 private:
  struct Entry {
    const void* pointer = nullptr;
    int device = 0;
    std::uint64_t epoch = 0;
  };
  static constexpr std::size_t kSets = 64;
  static constexpr std::size_t kWays = 4;  // operands of one call must not push each other out
  static std::size_t index(const void* pointer) noexcept {
    const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(pointer) * 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>(mixed >> 58);
  }
  std::array<std::array<Entry, kWays>, kSets> entries_{};
  std::size_t next_ = 0;
};
thread_local KnownPointers known_pointers;
std::atomic<std::uint64_t> last_epoch{0};

/// The plans that this thread used last: finding one here takes no lock.
class RecentPlans {
 public:
  /// Null where there is none, and now and then where there is: looking a plan up where all are
  /// kept is what saves it from being the one longest unused.
  [[nodiscard]] DirectPlan* find(const DirectKey& key, std::uint64_t epoch) noexcept {
    Entry& entry = entries_[key.hash() % kEntries];
    if (entry.epoch != epoch || !(entry.key == key) || ++entry.uses % 64 == 0) return nullptr;
    return entry.plan.get();
  }
  void add(const DirectKey& key, std::shared_ptr<DirectPlan> plan, std::uint64_t epoch) noexcept {
    entries_[key.hash() % kEntries] = {key, std::move(plan), epoch, 0};
  }

 private:
  struct Entry {
    DirectKey key;
    std::shared_ptr<DirectPlan> plan;
    std::uint64_t epoch = 0;
    unsigned uses = 0;
  };
  static constexpr std::size_t kEntries = 16;
  std::array<Entry, kEntries> entries_;
};
thread_local RecentPlans recent_plans;

/// Kept by each thread, so that a call allocates nothing.
thread_local AddressMap bound_addresses;

Status enqueue_all(const DirectRoad& road, const AddressMap& addresses, Stream stream) {
  for (const std::shared_ptr<Step>& step : road.steps) {
    AI_RETURN_IF_ERROR(enqueue(*step, addresses, stream));
  }
  return {};
}

}  // namespace

DirectPath::DirectPath(const cuda::Api& api, MakeBackend make_backend) noexcept
    : api_(api),
      driver_(cuda::driver_streams(api)),
      make_backend_(make_backend),
      epoch_(++last_epoch),
      scratch_(api, driver_) {}

Status DirectPath::run(const DirectCall& call, Stream stream) {
  const cuda::DeviceGuard guard(api_, call.device());
  if (!guard.status().ok()) {
    AI_RETURN_IF_ERROR(call.plan().status());
    AI_RETURN_IF_ERROR(cuda::check_device(api_, call.device()));
    return guard.status();
  }
  std::shared_ptr<DirectPlan> owner;
  const Result<DirectPlan*> plan = find(call, owner);
  AI_RETURN_IF_ERROR(plan.status());
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  const cudaError_t asked = cuda::is_capturing(api_, driver_, stream, &capturing);
  if (asked == cudaErrorStreamCaptureImplicit) {
    (void)api_.get_last_error();
    return {StatusCode::CaptureActive,
            "a blocking stream is being captured, and work on the legacy stream would become part "
            "of that capture: call after it has ended, or on another stream"};
  }
  AI_RETURN_IF_ERROR(cuda::to_status(api_, asked, "cudaStreamIsCapturing"));
  if (capturing == cudaStreamCaptureStatusInvalidated) {
    return {StatusCode::CaptureInvalidated,
            "something has invalidated the capture of the stream; end it and begin again"};
  }
  if (capturing == cudaStreamCaptureStatusActive) return run_captured(**plan, call, stream);
  return explained(run_eager(**plan, call, stream), call.device(), stream);
}

Result<DirectPlan*> DirectPath::find(const DirectCall& call, std::shared_ptr<DirectPlan>& owner) {
  const DirectKey key(call);
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
  DirectPlan* plan = key.valid() ? recent_plans.find(key, epoch) : nullptr;
  if (plan == nullptr && key.valid()) {
    owner = plans_.find(key);
    plan = owner.get();
    if (plan != nullptr) recent_plans.add(key, owner, epoch);
  }
  if (plan != nullptr) {
    if (plan->may_overlap(call)) AI_RETURN_IF_ERROR(call.plan().status());
    AI_RETURN_IF_ERROR(check_operands(*plan, call));
    return plan;
  }
  Result<std::shared_ptr<DirectPlan>> made = make(call);
  AI_RETURN_IF_ERROR(made.status());
  owner = std::move(made).value();
  if (key.valid()) plans_.insert(key, owner);
  return owner.get();
}

Result<std::shared_ptr<DirectPlan>> DirectPath::make(const DirectCall& call) {
  const Result<GemmPlan> plan = call.plan();
  AI_RETURN_IF_ERROR(plan.status());
  AI_RETURN_IF_ERROR(cuda::check_device(api_, call.device()));
  const cuda::CaptureModeGuard relaxed(api_);
  const cuda::DeviceGuard guard(api_, call.device());
  AI_RETURN_IF_ERROR(guard.status());
  reclaim(api_);
  Result<std::shared_ptr<DirectPlan>> made =
      DirectPlan::make(api_, call, *plan, *make_backend_(call.device()));
  AI_RETURN_IF_ERROR(made.status());
  AI_RETURN_IF_ERROR(check_operands(**made, call));
  planned_.fetch_add(1, std::memory_order_relaxed);
  return made;
}

Status DirectPath::check_operands(const DirectPlan& plan, const DirectCall& call) const {
  const int device = call.device();
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
  for (std::size_t slot = 0; slot < call.slots(); ++slot) {
    if (!plan.touches(slot)) continue;
    const Tensor& operand = *call.operand(slot);
    if (known_pointers.holds(operand.data, device, epoch)) continue;
    if (symbolic::is_symbolic(operand.data)) {
      return {StatusCode::Invalid, std::string(name_of(call, slot)) +
                                       " is a temporary, which has memory in its program only"};
    }
    if (Status status = check_pointer(api_, operand, device); !status.ok()) {
      return {status.code(), std::string(name_of(call, slot)) + " " + status.message()};
    }
    known_pointers.add(operand.data, device, epoch);
  }
  return {};
}

Status DirectPath::run_eager(const DirectPlan& plan, const DirectCall& call, Stream stream) {
  const DirectRoad& road = plan.eager();
  AddressMap& addresses = bound_addresses;
  if (road.scratch.bytes == 0) {
    plan.bind(road, call, nullptr, addresses);
    return enqueue_all(road, addresses, stream);
  }
  Result<StreamScratch::Lease> lease = scratch_.lease(call.device(), stream, road.scratch.bytes);
  if (!lease) return {lease.status().code(), "scratch: " + lease.status().message()};
  plan.bind(road, call, lease->data(), addresses);
  Status status = enqueue_all(road, addresses, stream);
  Status marked = lease->done(stream);
  return status.ok() ? marked : status;
}

Status DirectPath::run_captured(DirectPlan& plan, const DirectCall& call, Stream stream) {
  const cuda::CaptureModeGuard relaxed(api_);
  reclaim(api_);
  const Result<const DirectRoad*> road = plan.captured(api_, *make_backend_(call.device()));
  AI_RETURN_IF_ERROR(road.status());
  AddressMap& addresses = bound_addresses;
  const std::size_t bytes = (*road)->scratch.bytes;
  if (bytes == 0) {
    plan.bind(**road, call, nullptr, addresses);
    return enqueue_all(**road, addresses, stream);
  }
  Result<cuda::DeviceMemory> memory = cuda::DeviceMemory::allocate(api_, call.device(), bytes);
  if (!memory) return {memory.status().code(), "scratch: " + memory.status().message()};
  plan.bind(**road, call, memory->data(), addresses);
  auto retained = std::make_unique<Retained>();
  retained->workspace = std::move(memory).value();
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api_, stream_get_capture_info, stream, &capturing, nullptr, &graph,
                          nullptr, nullptr, nullptr);
  AI_RETURN_IF_ERROR(retain(api_, graph, std::move(retained)));
  return enqueue_all(**road, addresses, stream);
}

/// CUDA has no word of its own for a stream of another device.
Status DirectPath::explained(Status status, int device, Stream stream) const {
  if (status.ok() || status.code() != StatusCode::CudaError) return status;
  int owner = device;
  if (api_.stream_get_device(stream, &owner) != cudaSuccess) (void)api_.get_last_error();
  if (owner == device) return status;
  return {StatusCode::DeviceMismatch, "the stream belongs to device " + std::to_string(owner) +
                                          ", expected device " + std::to_string(device)};
}

gemm::PlanCacheInfo DirectPath::info() const {
  const StreamScratch::Size scratch = scratch_.size();
  return {.plans = plans_.size(),
          .limit = plans_.limit(),
          .planned = planned_.load(std::memory_order_relaxed),
          .scratch_blocks = scratch.blocks,
          .scratch_bytes = scratch.bytes};
}

void DirectPath::set_limit(std::size_t plans) {
  plans_.set_limit(plans);
  epoch_.store(++last_epoch, std::memory_order_relaxed);
}

void DirectPath::clear() {
  plans_.clear();
  epoch_.store(++last_epoch, std::memory_order_relaxed);
  scratch_.clear();
  reclaim(api_);
}

}  // namespace ai::detail
