#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cuda/error.hpp"
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"

namespace ai::cuda {

class DeviceMemory::Pool {
 public:
  Pool(const Api& api, int device) noexcept : api_(api), device_(device) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    const CaptureModeGuard relaxed(api_);
    stream_.reset();
    if (pool_ != nullptr) ignore(api_.mem_pool_destroy(pool_));
  }

  /// The pool of (api, device), made where nobody holds one. Precondition: `device` is current.
  static Result<std::shared_ptr<Pool>> acquire(const Api& api, int device);

  Result<void*> allocate(std::size_t bytes);
  void free(void* data) noexcept;
  void free_behind(void* data, cudaStream_t stream) noexcept;
  /// Some memory of it is used for ever.
  void keep_for_ever() noexcept {
    const std::scoped_lock lock(mutex_);
    is_never_settled_ = true;
  }

 private:
  /// A pool whose users are gone stays until all that was freed behind work has been freed: a
  /// driver (580.159, several processes on one GPU) was seen to crash where it was destroyed
  /// earlier, though CUDA allows that.
  struct Registry {
    std::recursive_mutex mutex;  // a pool that cannot be shared is retired where it was made
    std::map<std::pair<const Api*, int>, std::weak_ptr<Pool>> pools;
    std::list<std::unique_ptr<Pool>> retired;
    std::list<std::unique_ptr<Pool>> kept;  // for ever
  };
  struct Retire {
    void operator()(Pool* pool) const noexcept;
  };
  // Never destroyed: memory may be owned by objects of static lifetime.
  static Registry& registry() {
    static Registry& instance = *new Registry;
    return instance;
  }
  static std::list<std::unique_ptr<Pool>> take_settled(Registry& all) noexcept;
  [[nodiscard]] bool is_settled() noexcept;

  Status create() noexcept;
  Status out_of_memory(std::size_t bytes) const;
  void ignore(cudaError_t code) const noexcept {
    if (code != cudaSuccess) (void)api_.get_last_error();
  }

  const Api& api_;
  const int device_;
  OwnedStream stream_;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  std::vector<OwnedEvent> behind_;  // each behind a free that may not be over
  bool is_never_settled_ = false;
};

Result<std::shared_ptr<DeviceMemory::Pool>> DeviceMemory::Pool::acquire(const Api& api,
                                                                        int device) {
  Registry& all = registry();
  std::list<std::unique_ptr<Pool>> settled;  // which go once the lock has been given back
  const std::scoped_lock lock(all.mutex);
  settled = take_settled(all);
  std::erase_if(all.pools, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Pool>& entry = all.pools[{&api, device}];
  if (std::shared_ptr<Pool> existing = entry.lock()) return existing;
  auto pool = std::make_unique<Pool>(api, device);
  AI_RETURN_IF_ERROR(pool->create());
  std::shared_ptr<Pool> made(std::unique_ptr<Pool, Retire>(pool.release()));
  entry = made;
  return made;
}

/// For the last user of a pool.
void DeviceMemory::Pool::Retire::operator()(Pool* pool) const noexcept {
  std::unique_ptr<Pool> own(pool);
  std::list<std::unique_ptr<Pool>> settled;
  std::list<std::unique_ptr<Pool>> unsettled;
  try {
    unsettled.emplace_back();
  } catch (const std::bad_alloc&) {
    if (!own->is_settled()) (void)own.release();  // rather than too early
    return;
  }
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  settled = take_settled(all);
  if (own->is_settled()) return;
  auto& others = own->is_never_settled_ ? all.kept : all.retired;
  unsettled.front() = std::move(own);
  others.splice(others.end(), unsettled);
}

/// Those of the retired that may be destroyed.
std::list<std::unique_ptr<DeviceMemory::Pool>> DeviceMemory::Pool::take_settled(
    Registry& all) noexcept {
  std::list<std::unique_ptr<Pool>> settled;
  for (auto next = all.retired.begin(); next != all.retired.end();) {
    const auto pool = next++;
    if ((*pool)->is_settled()) {
      settled.splice(settled.end(), all.retired, pool);
    } else if ((*pool)->is_never_settled_) {
      all.kept.splice(all.kept.end(), all.retired, pool);
    }
  }
  return settled;
}

/// Whether nothing waits to be freed any more.
bool DeviceMemory::Pool::is_settled() noexcept {
  const CaptureModeGuard relaxed(api_);
  const std::scoped_lock lock(mutex_);
  std::erase_if(behind_, [&](const OwnedEvent& event) {
    const cudaError_t code = api_.event_query(event.get());
    ignore(code);
    is_never_settled_ = is_never_settled_ || (code != cudaSuccess && code != cudaErrorNotReady);
    return code == cudaSuccess;
  });
  return behind_.empty() && !is_never_settled_;
}

Status DeviceMemory::Pool::create() noexcept {
  Result<OwnedStream> stream = make_stream(api_);
  if (!stream) return stream.status();
  stream_ = std::move(*stream);
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.handleTypes = cudaMemHandleTypeNone;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = device_;
  AI_CUDA_RETURN_IF_ERROR(api_, mem_pool_create, &pool_, &props);
  // Memory that is freed behind running work must not be handed out on the condition that it ends:
  // an allocation would wait for somebody else's launch.
  int allow = 0;
  AI_CUDA_RETURN_IF_ERROR(api_, mem_pool_set_attribute, pool_,
                          cudaMemPoolReuseAllowInternalDependencies, &allow);
  return {};
}

Result<void*> DeviceMemory::Pool::allocate(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = api_.malloc_from_pool_async(&data, bytes, pool_, stream_.get());
  if (code == cudaErrorMemoryAllocation) {
    ignore(code);
    return out_of_memory(bytes);
  }
  AI_RETURN_IF_ERROR(to_status(api_, code, "cudaMallocFromPoolAsync"));
  Status ready = to_status(api_, api_.stream_synchronize(stream_.get()), "cudaStreamSynchronize");
  if (!ready.ok()) {
    ignore(api_.free_async(data, stream_.get()));
    return ready;
  }
  return data;
}

Status DeviceMemory::Pool::out_of_memory(std::size_t bytes) const {
  std::string message = std::to_string(bytes) + " bytes of memory were asked for on device " +
                        std::to_string(device_);
  std::size_t free = 0;
  std::size_t total = 0;
  const cudaError_t code = api_.mem_get_info(&free, &total);
  ignore(code);
  if (code == cudaSuccess) {
    message +=
        ", which has " + std::to_string(free) + " of its " + std::to_string(total) + " bytes free";
  }
  return {StatusCode::OutOfMemory, std::move(message)};
}

void DeviceMemory::Pool::free(void* data) noexcept {
  const CaptureModeGuard relaxed(api_);
  const DeviceGuard guard(api_, device_);
  // The device is out of reach when the process is ending and the driver has gone first.
  if (!guard.status().ok()) return;
  ignore(api_.free_async(data, stream_.get()));
  ignore(api_.stream_synchronize(stream_.get()));
  ignore(api_.mem_pool_trim_to(pool_, 0));
}

void DeviceMemory::Pool::free_behind(void* data, cudaStream_t stream) noexcept {
  const CaptureModeGuard relaxed(api_);
  const DeviceGuard guard(api_, device_);
  if (!guard.status().ok()) return keep_for_ever();
  (void)is_settled();  // so that events do not add up
  Result<OwnedEvent> event = make_event(api_, false);
  ignore(api_.free_async(data, stream));
  if (!event) return keep_for_ever();
  const cudaError_t recorded = api_.event_record(event->get(), stream);
  ignore(recorded);
  if (recorded != cudaSuccess) return keep_for_ever();
  const std::scoped_lock lock(mutex_);
  try {
    behind_.push_back(std::move(*event));
  } catch (const std::bad_alloc&) {
    is_never_settled_ = true;
  }
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this != &other) {
    free();
    pool_ = std::move(other.pool_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

DeviceMemory::~DeviceMemory() {
  free();
}

void DeviceMemory::free_behind(cudaStream_t stream) noexcept {
  if (data_ != nullptr) pool_->free_behind(std::exchange(data_, nullptr), stream);
  bytes_ = 0;
  pool_.reset();
}

void DeviceMemory::abandon() noexcept {
  if (data_ != nullptr) pool_->keep_for_ever();
  data_ = nullptr;
  bytes_ = 0;
  pool_.reset();
}

void DeviceMemory::free() noexcept {
  if (data_ != nullptr) pool_->free(data_);
  data_ = nullptr;
  bytes_ = 0;
  pool_.reset();
}

Result<DeviceMemory> DeviceMemory::allocate(const Api& api, int device, std::size_t bytes) noexcept
    try {
  DeviceMemory memory;
  if (bytes == 0) return memory;
  const CaptureModeGuard relaxed(api);
  const DeviceGuard guard(api, device);
  AI_RETURN_IF_ERROR(guard.status());
  Result<std::shared_ptr<Pool>> pool = Pool::acquire(api, device);
  if (!pool) return pool.status();
  Result<void*> data = (*pool)->allocate(bytes);
  if (!data) return data.status();
  memory.pool_ = std::move(*pool);
  memory.data_ = *data;
  memory.bytes_ = bytes;
  return memory;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, "host memory ran out");
}

}  // namespace ai::cuda
