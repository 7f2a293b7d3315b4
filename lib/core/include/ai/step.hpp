#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ai/memory.hpp"
#include "ai/status.hpp"

struct CUstream_st;  // CUDA's own name for what cudaStream_t points to

namespace ai {

/// A CUDA stream: the same type as cudaStream_t and CUstream, named without a CUDA header.
using Stream = CUstream_st*;

/// The smallest thing that is recorded: some work on known memory. A step is immutable and bound to
/// no memory of its own. It is built over user addresses and symbolic ones (ai::symbolic), and
/// `enqueue` is told what these stand for; so one step serves tuning on scratch operands, recording
/// and re-recording.
class Step {
 public:
  Step(std::string name, std::vector<MemoryRange> reads, std::vector<MemoryRange> writes,
       std::vector<MemoryRange> state = {})
      : name_(std::move(name)),
        reads_(std::move(reads)),
        writes_(std::move(writes)),
        state_(std::move(state)) {}
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Every byte that is read or written, scratch included (scratch counts as written). They give
  /// the graph its edges and scratch its lifetime.
  [[nodiscard]] const std::vector<MemoryRange>& reads() const noexcept { return reads_; }
  [[nodiscard]] const std::vector<MemoryRange>& writes() const noexcept { return writes_; }
  /// Scratch that is this step's alone, among writes() too: zero before it first runs over it, and
  /// from then on what the step itself left there. Symbolic.
  [[nodiscard]] const std::vector<MemoryRange>& state() const noexcept { return state_; }

  /// Loads what `enqueue` needs (kernels, libraries). Called on the step's device, outside any
  /// capture, before the first enqueue; may allocate and synchronise. Must not touch operands.
  [[nodiscard]] virtual Status prepare() { return {}; }

  /// Puts the work on `stream` (CUDA) or does it before returning (host; `stream` is null). May run
  /// under stream capture and more than once: no allocation, no synchronisation, no module load.
  /// A step with state may launch a cooperative kernel, and nothing else then: one whose only
  /// parameter is a structure, and which returns at once where all of that is zero.
  /// May throw only where user code does; the recorder turns that into a Status.
  [[nodiscard]] virtual Status enqueue(const AddressMap& addresses, Stream stream) = 0;

 private:
  std::string name_;
  std::vector<MemoryRange> reads_;
  std::vector<MemoryRange> writes_;
  std::vector<MemoryRange> state_;
};

/// What a piece of work reads and what it writes.
struct Accesses {
  std::span<const MemoryRange> reads;
  std::span<const MemoryRange> writes;
};

/// Whether two pieces of work must keep their order, whichever it is.
[[nodiscard]] bool in_conflict(const Accesses& a, const Accesses& b) noexcept;

/// Whether `later` must wait for `earlier`: read after write, write after read, write after write.
[[nodiscard]] bool depends_on(const Step& later, const Step& earlier) noexcept;

/// For each step the indices of the earlier steps it must wait for, without those already implied
/// by another (transitive reduction), in ascending order. May throw std::bad_alloc.
[[nodiscard]] std::vector<std::vector<int>> dependencies(const std::vector<const Step*>& steps);
/// The same for `count` steps of which waits(later, earlier) is known.
[[nodiscard]] std::vector<std::vector<int>> dependencies(
    std::size_t count, const std::function<bool(std::size_t, std::size_t)>& waits);

}  // namespace ai
