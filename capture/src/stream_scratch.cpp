#include "capture/stream_scratch.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "cuda/error.hpp"
#include "cuda/guards.hpp"

namespace ai::detail {
namespace {

constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;

}  // namespace

class StreamScratch::Block {
 public:
  Block(const cuda::Api& api, int device) noexcept : api_(api), device_(device) {}
  ~Block() { give_back(); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
  [[nodiscard]] void* data() const noexcept { return memory_.data(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Asks the next use to give the memory back that is there then.
  void expire() noexcept { expired_ = true; }
  /// Asks for each use to be marked.
  void mark_always() noexcept { marks_always_ = true; }
  /// Keeps it no longer, if it can be given back now. Whoever is about to use it sees that.
  [[nodiscard]] bool let_go() noexcept {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || (mark_ == Mark::Missing && memory_.data() != nullptr)) return false;
    is_kept_ = false;
    return true;
  }

  /// The mutex is held, as for what follows.
  [[nodiscard]] Status reserve(std::size_t bytes, Stream stream) noexcept {
    if (!used_) {
      Result<cuda::OwnedEvent> event = cuda::make_event(api_, false);
      AI_RETURN_IF_ERROR(event.status());
      used_ = std::move(event).value();
    }
    if (expired_.load(std::memory_order_relaxed) && expired_.exchange(false)) {
      memory_.free_behind(stream);
      bytes_ = 0;
    }
    if (memory_.bytes() >= bytes) {
      mark_ = Mark::Missing;  // until done() says better
      return {};
    }
    Result<cuda::DeviceMemory> larger =
        cuda::DeviceMemory::allocate(api_, device_, std::bit_ceil(std::max(bytes, kSmallestBlock)));
    if (larger.status().code() == StatusCode::OutOfMemory) {
      larger = cuda::DeviceMemory::allocate(api_, device_, bytes);
    }
    AI_RETURN_IF_ERROR(larger.status());
    memory_.free_behind(stream);
    memory_ = std::move(larger).value();
    bytes_ = memory_.bytes();
    mark_ = Mark::Missing;
    return {};
  }

  [[nodiscard]] Status mark(Stream stream) noexcept {
    ++uses_;
    if (is_kept_ && !marks_always_ && uses_ > kAlwaysMarked && uses_ % kMarkEvery != 0) {
      mark_ = Mark::Missing;
      return {};
    }
    const cudaError_t code = api_.event_record(used_.get(), stream);
    mark_ = code == cudaSuccess ? Mark::Behind : Mark::Missing;
    return cuda::to_status(api_, code, "cudaEventRecord");
  }

  std::uint64_t last_use = 0;  ///< of the clock of all blocks, under their mutex

 private:
  enum class Mark { Unused, Behind, Missing };  // of the event: behind the last use or not

  /// Without waiting, and without the stream, which may be gone. Where it cannot be known when the
  /// memory falls out of use, it is never freed.
  void give_back() noexcept {
    if (memory_.data() == nullptr || mark_ == Mark::Unused) return;
    const cuda::CaptureModeGuard relaxed(api_);
    const cuda::DeviceGuard guard(api_, device_);
    const Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
    if (mark_ == Mark::Missing || !guard.status().ok() || !stream.ok() ||
        api_.stream_wait_event(stream->get(), used_.get(), 0) != cudaSuccess) {
      (void)api_.get_last_error();
      return memory_.abandon();
    }
    memory_.free_behind(stream->get());
  }

  const cuda::Api& api_;
  const int device_;
  std::mutex mutex_;
  cuda::DeviceMemory memory_;
  std::atomic<std::size_t> bytes_{0};  // of memory_, for those who do not hold the mutex
  std::atomic<bool> expired_{false};
  cuda::OwnedEvent used_;
  std::uint64_t uses_ = 0;
  Mark mark_ = Mark::Unused;
  std::atomic<bool> marks_always_{false};
  std::atomic<bool> is_kept_{true};  // by blocks_; else it goes with its last lease
};

void* StreamScratch::Lease::data() const noexcept {
  return block_->data();
}

Status StreamScratch::Lease::done(Stream stream) noexcept {
  return block_->mark(stream);
}

Result<StreamScratch::Lease> StreamScratch::lease(int device, Stream stream, std::size_t bytes) {
  Result<std::shared_ptr<Block>> block = find(device, stream);
  AI_RETURN_IF_ERROR(block.status());
  std::unique_lock<std::mutex> lock((*block)->mutex());
  AI_RETURN_IF_ERROR((*block)->reserve(bytes, stream));
  return Lease(std::move(block).value(), std::move(lock));
}

Result<std::shared_ptr<StreamScratch::Block>> StreamScratch::find(int device, Stream stream) {
  Id id{device, 0};
  AI_RETURN_IF_ERROR(
      cuda::to_status(api_, cuda::get_id(api_, driver_, stream, &id.second), "cudaStreamGetId"));
  std::shared_ptr<Block> dropped;  // dies after the lock is released
  const std::scoped_lock lock(mutex_);
  if (const auto found = blocks_.find(id); found != blocks_.end()) {
    found->second->last_use = ++clock_;
    if (blocks_.size() > kFewBlocks) found->second->mark_always();
    return found->second;
  }
  auto block = std::make_shared<Block>(api_, device);
  if (blocks_.size() >= kMostBlocks) dropped = take_oldest();
  block->last_use = ++clock_;
  if (blocks_.size() < kMostBlocks) {
    blocks_.emplace(id, block);
  } else {
    (void)block->let_go();
  }
  return block;
}

/// The one longest unused of those that can be given back; null where there is none.
std::shared_ptr<StreamScratch::Block> StreamScratch::take_oldest() {
  std::vector<std::map<Id, std::shared_ptr<Block>>::iterator> by_age;
  for (auto entry = blocks_.begin(); entry != blocks_.end(); ++entry) by_age.push_back(entry);
  std::sort(by_age.begin(), by_age.end(),
            [](const auto& a, const auto& b) { return a->second->last_use < b->second->last_use; });
  for (const auto& entry : by_age) {
    if (!entry->second->let_go()) continue;
    std::shared_ptr<Block> taken = std::move(entry->second);
    blocks_.erase(entry);
    return taken;
  }
  return nullptr;
}

void StreamScratch::clear() noexcept {
  std::map<Id, std::shared_ptr<Block>> dropped;  // die after the lock is released
  const std::scoped_lock lock(mutex_);
  for (auto entry = blocks_.begin(); entry != blocks_.end();) {
    if (entry->second->let_go()) {
      dropped.insert(blocks_.extract(entry++));
    } else {
      (entry++)->second->expire();
    }
  }
}

StreamScratch::Size StreamScratch::size() const noexcept {
  const std::scoped_lock lock(mutex_);
  Size size;
  for (const auto& [id, block] : blocks_) {
    size.bytes += block->bytes();
    size.blocks += block->bytes() > 0 ? 1 : 0;
  }
  return size;
}

}  // namespace ai::detail
