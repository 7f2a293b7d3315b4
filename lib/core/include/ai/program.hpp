#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ai/gemm.hpp"
#include "ai/status.hpp"
#include "ai/step.hpp"

namespace ai {

/// What a user step is handed when it runs: its own tensors, in the order they were declared, over
/// the addresses of this recording (a temporary has its real address only here).
struct StepContext {
  Stream stream = nullptr;  ///< CUDA target: enqueue here. Host target: null.
  std::span<const Tensor> reads = {};
  std::span<const Tensor> writes = {};
};

/// The caller's own work between GEMMs. On the CUDA target `cuda` runs while the program is being
/// captured (never at replay) and enqueues kernels or copies on the given stream; it may run more
/// than once, must not synchronise or allocate device memory, and should depend on nothing that
/// changes later, since what it enqueued is what every replay does. Calls that are not enqueued (a
/// synchronous copy, an allocation) happen at capture only: CUDA's relaxed capture mode lets them
/// pass, so that a step may load its kernels lazily. On the host target `host` runs at every
/// launch. An exception becomes a Status. Only one of the two need be set. What the functions hold
/// lives as long as the executable; where that is destroyed in flight, until a later capture, wait
/// or destruction of any executable.
struct UserStep {
  std::string name = {};
  std::vector<Tensor> reads = {};
  std::vector<Tensor> writes = {};  ///< all memory it may write; may repeat what it reads
  std::function<Status(const StepContext&)> cuda = {};
  std::function<Status(const StepContext&)> host = {};
};

/// A copy between host memory and the program's device, or (Device::CPU) within host memory. See
/// Program::copy_in.
struct CopyStep {
  Tensor from = {};
  Tensor to = {};
  bool in = true;  ///< copy_in: the host's side is `from`; else copy_out: it is `to`

  [[nodiscard]] const Tensor& host() const noexcept { return in ? from : to; }
  [[nodiscard]] const Tensor& device() const noexcept { return in ? to : from; }
};

/// An ordered list of plans, copies and user steps over one device's tensors. Later items see what
/// earlier ones wrote; items that share no written memory may run at the same time. A value: owns
/// no device memory, may be copied, and may die before the first launch.
class Program {
 public:
  /// Appends an item after checking it against the earlier ones: one device throughout
  /// (DeviceMismatch); a temporary belongs to this program and some of what is read of it was
  /// written before (Invalid). On failure the program is unchanged.
  [[nodiscard]] Status add(const GemmPlan& plan) noexcept;
  /// As above, and the step's own rules: a name, at least one function, tensors as in a plan
  /// (any dtype).
  [[nodiscard]] Status add(UserStep step) noexcept;

  /// Appends a copy of `host` (Device::CPU) to `device`, an input that arrives with each launch.
  /// The replay reads the host ADDRESS: it takes what lies there when the copy runs, not what lay
  /// there at capture or at launch. So change `host` only before launch or after wait(), and keep
  /// it alive as long as the executable. On the CUDA target it must be pinned (cudaHostAlloc,
  /// cudaHostRegister; else DeviceMismatch at capture). Same dtype (any) and shape, strides free;
  /// the program's rules for items apply, its device is that of `device`. In a program over
  /// Device::CPU tensors both are ordinary host memory. Errors name `host` or `device`.
  [[nodiscard]] Status copy_in(const Tensor& host, const Tensor& device) noexcept;
  /// Likewise from `device` to `host`, an output: complete once wait() has returned.
  [[nodiscard]] Status copy_out(const Tensor& device, const Tensor& host) noexcept;

  /// Storage of the library's own for a value that nobody outside reads: `desc` with shape
  /// {rows, cols} or {count}, packed. The tensor's `data` is a placeholder, only good for operands
  /// of this program's items; steps get the real address. Its contents do not survive from one
  /// launch to the next, and two temporaries may share memory where their uses do not overlap.
  [[nodiscard]] Result<Tensor> temporary(const TensorDesc& desc, Device device = Device::CUDA,
                                         int device_index = 0) noexcept;

  using Item = std::variant<GemmPlan, UserStep, CopyStep>;
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  /// The device of the first item. Precondition: !empty().
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] int device_index() const noexcept { return device_index_; }
  [[nodiscard]] const std::vector<Tensor>& temporaries() const noexcept { return temporaries_; }

 private:
  [[nodiscard]] Status add_copy(const CopyStep& copy) noexcept;

  std::vector<Item> items_;
  std::vector<Tensor> temporaries_;
  std::vector<MemoryRange> written_temporaries_;
  Device device_ = Device::CUDA;
  int device_index_ = 0;
};

/// A tensor that an item reads, writes or both, borrowed from it. The name is what errors call it.
struct Operand {
  std::string name;
  const Tensor* tensor;
  bool is_read;
  bool is_written;
};

/// The operands whose memory `plan` touches; those are left out that are never read or written (C
/// of a backward call, A where alpha = 0, ...). May throw std::bad_alloc, as may those below.
[[nodiscard]] std::vector<Operand> operands_of(const GemmPlan& plan);
/// Every tensor that `plan` reads, and every one that it writes.
[[nodiscard]] std::vector<Tensor> inputs_of(const GemmPlan& plan);
[[nodiscard]] std::vector<Tensor> outputs_of(const GemmPlan& plan);

}  // namespace ai
