#include "capture/direct_path.hpp"

#include <array>
#include <string>
#include <utility>

#include "capture/cuda_capture.hpp"
#include "capture/direct_memo.hpp"
#include "capture/enqueue.hpp"
#include "capture/reclaim.hpp"
#include "capture/streams.hpp"
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

/// Pointers that this thread has lately asked CUDA about and found on a device.
class KnownPointers {
 public:
  [[nodiscard]] bool holds(const void* pointer, int device, std::uint64_t epoch) const noexcept {
    for (const Entry& entry : entries_[index(pointer)]) {
      if (entry.pointer == pointer && entry.device == device && entry.epoch == epoch) return true;
    }
    return false;
  }
  void add(const void* pointer, int device, std::uint64_t epoch) noexcept {
    auto& set = entries_[index(pointer)];
    Entry* place = &set[++next_ % kWays];
    for (Entry& entry : set) {
      if (entry.epoch != epoch) place = &entry;
    }
    *place = {pointer, device, epoch};
  }

 private:
  struct Entry {
    const void* pointer = nullptr;
    int device = 0;
    std::uint64_t epoch = 0;
  };
  static constexpr std::size_t kSets = 256;
  static constexpr std::size_t kWays = 4;
  static std::size_t index(const void* pointer) noexcept {
    const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(pointer) * 0x9E3779B97F4A7C15U;
    static_assert(kSets == 256);  // eight bits
    return static_cast<std::size_t>(mixed >> 56);
  }
  std::array<std::array<Entry, kWays>, kSets> entries_{};
  std::size_t next_ = 0;
};
thread_local KnownPointers known_pointers;
std::atomic<std::uint64_t> last_epoch{0};

Status broken_capture() {
  return {StatusCode::CaptureInvalidated,
          "something has invalidated the capture of the stream; end it and begin again"};
}

Status enqueue_all(const DirectRoad& road, const AddressMap& addresses, Stream stream) {
  for (const std::shared_ptr<Step>& step : road.steps) {
    AI_RETURN_IF_ERROR(enqueue(*step, addresses, stream));
  }
  return {};
}

}  // namespace

DirectPath::DirectPath(const cuda::Api& api, DirectPlan::BackendMaker make_backend) noexcept
    : api_(api),
      driver_(cuda::driver_streams(api)),
      launch_(cuda::driver_launch(api)),
      make_backend_(make_backend),
      epoch_(++last_epoch),
      scratch_(api, driver_) {}

DirectPath::~DirectPath() {
  RecentCalls::forget_here();
}

Status DirectPath::run(const DirectCall& call, Stream stream) {
  // Before anything else: what the caller had held may make calls of its own when it goes, which
  // use the same memory of recent calls, and may change the current device.
  reclaim(api_);
  const cuda::DeviceGuard guard(api_, call.device());
  if (!guard.status().ok()) {
    AI_RETURN_IF_ERROR(call.plan().status());
    AI_RETURN_IF_ERROR(cuda::check_device(api_, call.device()));
    return guard.status();
  }
  const DirectKey key(call);
  RecentCalls* const memo =
      key.valid() ? RecentCalls::of_this_thread(epoch_.load(std::memory_order_relaxed)) : nullptr;
  if (memo == nullptr) {
    RecentCall once;
    AI_RETURN_IF_ERROR(recall(call, key, once));
    return run_known(once, call, stream);
  }
  RecentCall* recent = memo->find(call, key);
  const bool is_known = recent != nullptr && recent->clock == plans_.clock();
  if (recent == nullptr) recent = &memo->oldest();
  if (!is_known) AI_RETURN_IF_ERROR(recall(call, key, *recent));
  return run_known(*recent, call, stream);
}

Status DirectPath::run_known(RecentCall& known, const DirectCall& call, Stream stream) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  AI_RETURN_IF_ERROR(unknown_state(api_, cuda::is_capturing(api_, driver_, stream, &capturing)));
  if (capturing == cudaStreamCaptureStatusInvalidated) return broken_capture();
  if (capturing == cudaStreamCaptureStatusActive) return run_captured(*known.plan, call, stream);
  return run_eager(known, call, stream);
}

/// Makes `recent` the call, if it is not: finds or makes its plan and holds its operands against
/// it.
Status DirectPath::recall(const DirectCall& call, const DirectKey& key, RecentCall& recent) {
  bool is_kept = key.valid();
  std::shared_ptr<DirectPlan> plan = is_kept ? plans_.find(key) : nullptr;
  // Other problems may have been planned since, no more.
  const bool is_same = plan != nullptr && plan == recent.plan && recent.is(call, key);
  if (!is_same) {
    if (plan != nullptr) {
      if (plan->may_overlap(call)) AI_RETURN_IF_ERROR(call.plan().status());
      AI_RETURN_IF_ERROR(check_operands(*plan, call));
    } else {
      Result<std::shared_ptr<DirectPlan>> made = make(call);
      AI_RETURN_IF_ERROR(made.status());
      plan = std::move(made).value();
      is_kept = is_kept && plans_.insert(key, plan);
    }
    recent.become(call, key, std::move(plan));
    recent.is_kept = is_kept;
  }
  recent.clock = plans_.clock();
  return {};
}

Result<std::shared_ptr<DirectPlan>> DirectPath::make(const DirectCall& call) {
  const Result<GemmPlan> plan = call.plan();
  AI_RETURN_IF_ERROR(plan.status());
  AI_RETURN_IF_ERROR(cuda::check_device(api_, call.device()));
  const cuda::CaptureModeGuard relaxed(api_);
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

/// Makes the graph of a call that comes again and again.
void DirectPath::make_replay(RecentCall& known, const DirectCall& call) const {
  if (known.uses < kGraphFrom && ++known.uses < kGraphFrom) return;
  if (!known.may_replay || !DirectReplay::has_room()) return;
  known.replay = DirectReplay::make(api_, launch_, *known.plan, call);
  known.may_replay = known.replay != nullptr || !DirectReplay::has_room();
}

Status DirectPath::run_eager(RecentCall& known, const DirectCall& call, Stream stream) {
  if (known.replay != nullptr) return known.replay->launch(stream);
  AI_RETURN_IF_ERROR(check_owner(api_, driver_, stream, call.device()));
  make_replay(known, call);
  if (known.replay != nullptr) return known.replay->launch(stream);
  const DirectRoad& road = known.plan->eager();
  if (road.scratch.bytes == 0) return enqueue_all(road, known.addresses, stream);
  Result<StreamScratch::Lease> lease = scratch_.lease(call.device(), stream, road.scratch.bytes);
  if (!lease) return {lease.status().code(), "scratch: " + lease.status().message()};
  if (known.scratch != lease->data()) {
    known.plan->bind(road, call, lease->data(), known.addresses);
    known.scratch = lease->data();
  }
  Status status = enqueue_all(road, known.addresses, stream);
  Status marked = lease->done(stream);
  return status.ok() ? marked : status;
}

Status DirectPath::run_captured(DirectPlan& plan, const DirectCall& call, Stream stream) {
  const cuda::CaptureModeGuard relaxed(api_);
  AI_RETURN_IF_ERROR(check_owner_of_captured(driver_, stream, call.device()));
  const Result<const DirectRoad*> road = plan.captured(api_, make_backend_);
  AI_RETURN_IF_ERROR(road.status());
  AddressMap addresses;
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
  if (capturing != cudaStreamCaptureStatusActive) return broken_capture();
  AI_RETURN_IF_ERROR(retain(api_, graph, std::move(retained)));
  return enqueue_all(**road, addresses, stream);
}

gemm::PlanCacheInfo DirectPath::info() const {
  const StreamScratch::Size scratch = scratch_.size();
  return {.plans = plans_.size(),
          .limit = plans_.limit(),
          .planned = planned_.load(std::memory_order_relaxed),
          .scratch_blocks = scratch.blocks,
          .scratch_bytes = scratch.bytes,
          .graphs = DirectReplay::count(),
          .graph_limit = DirectReplay::limit()};
}

void DirectPath::set_limit(std::size_t plans) {
  plans_.set_limit(plans);
  epoch_.store(++last_epoch, std::memory_order_relaxed);
  RecentCalls::forget_here();
}

void DirectPath::set_graph_limit(std::size_t graphs) {
  DirectReplay::set_limit(graphs);
  if (DirectReplay::count() <= graphs) return;
  epoch_.store(++last_epoch, std::memory_order_relaxed);
  RecentCalls::forget_here();
}

void DirectPath::clear() {
  plans_.clear();
  epoch_.store(++last_epoch, std::memory_order_relaxed);
  RecentCalls::forget_here();
  scratch_.clear();
  reclaim(api_);
}

}  // namespace ai::detail
