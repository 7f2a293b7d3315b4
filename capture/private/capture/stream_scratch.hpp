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
/// so a new stream with an old handle gets a block of its own. Thread-safe.
///
/// Giving a block back takes an event behind the last work that uses it, since its stream may be
/// gone by then; but an event behind every piece of work makes each dearer. So the first
/// kAlwaysMarked uses are marked by one (streams that come and go), and of later ones every
/// kMarkEvery-th, unless there are more than kFewBlocks blocks. A block whose last use is not
/// marked is given back by the next use of its stream.
class StreamScratch {
 public:
  static constexpr std::uint64_t kAlwaysMarked = 16;
  static constexpr std::uint64_t kMarkEvery = 64;
  static constexpr std::size_t kFewBlocks = 8;
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

  /// At least `bytes` for work on `stream`, which is one of `device`; that is current, and the
  /// stream is not being captured. Of more than kMostBlocks the one longest unused goes, among
  /// those whose last use is marked; without such a one the lease is of a block that is given back
  /// when it ends. Fails with OutOfMemory. May throw std::bad_alloc.
  [[nodiscard]] Result<Lease> lease(int device, Stream stream, std::size_t bytes);

  /// Gives every block back behind the work that uses it, now or at the stream's next use.
  void clear() noexcept;

  struct Size {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Size size() const noexcept;

 private:
  using Id = std::pair<int, unsigned long long>;  // device, stream
  [[nodiscard]] Result<std::shared_ptr<Block>> find(int device, Stream stream);
  [[nodiscard]] std::shared_ptr<Block> take_oldest();

  const cuda::Api& api_;
  const cuda::DriverStreams driver_;
  mutable std::mutex mutex_;
  std::map<Id, std::shared_ptr<Block>> blocks_;
  std::uint64_t clock_ = 0;
};

}  // namespace ai::detail
