#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "cuda/driver_streams.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// One block of device memory for each stream, for scratch that work on the stream uses one piece
/// after the other. A block is told from others by its stream's id, which CUDA never gives twice,
/// so a new stream with an old handle gets a block of its own. Of more than kMostBlocks the one
/// longest unused goes. Thread-safe.
class StreamScratch {
 public:
  static constexpr std::size_t kMostBlocks = 64;

  StreamScratch(const cuda::Api& api, const cuda::DriverStreams& driver) noexcept
      : api_(api), driver_(driver) {}

 private:
  class Block;

 public:
  /// The block of a stream, for one caller at a time: what is enqueued while it is held is not
  /// mixed with another thread's.
  class Lease {
   public:
    [[nodiscard]] void* data() const noexcept;
    /// Marks the end of what was enqueued over the block. To be called even if some of it failed.
    [[nodiscard]] Status done(Stream stream) noexcept;

   private:
    friend class StreamScratch;
    Lease(std::shared_ptr<Block> block, std::unique_lock<std::mutex> lock) noexcept
        : block_(std::move(block)), lock_(std::move(lock)) {}
    std::shared_ptr<Block> block_;
    std::unique_lock<std::mutex> lock_;
  };

  /// At least `bytes` for work on `stream` of `device`, which is current; the stream is not being
  /// captured. Fails with OutOfMemory, DeviceMismatch (a stream of another device). May throw
  /// std::bad_alloc.
  [[nodiscard]] Result<Lease> lease(int device, Stream stream, std::size_t bytes);

  /// Gives every block back behind the work that uses it.
  void clear() noexcept;

  struct Size {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Size size() const noexcept;

 private:
  using Id = std::pair<int, unsigned long long>;  // device, stream
  [[nodiscard]] Result<std::shared_ptr<Block>> find(int device, Stream stream);

  const cuda::Api& api_;
  const cuda::DriverStreams driver_;
  mutable std::mutex mutex_;
  std::map<Id, std::shared_ptr<Block>> blocks_;
  std::uint64_t clock_ = 0;
};

}  // namespace ai::detail
