#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "ai/tensor.hpp"
#include "ai/tuning.hpp"

namespace ai {

enum class Target { Auto, Host, CUDA };
[[nodiscard]] const char* to_string(Target target) noexcept;

/// One node of the captured graph (CUDA) or one step (host).
struct Node {
  std::string name;             ///< the step it came from
  std::string kind;             ///< "kernel", "memset", "memcpy", "host", ...
  std::vector<int> depends_on;  ///< indices into nodes()
};

/// An operand of an executable, over the memory that the next launch uses.
struct BoundOperand {
  std::string item;  ///< the plan or step, e.g. "forward Y[64,10]", "step 'loss'"
  std::string name;  ///< "A", "gBias", "reads[0]", "host", ...
  Tensor tensor;
  bool is_written = false;
};

/// Operands that move to other memory, with their shapes and strides.
struct Rebinding {
  const void* from = nullptr;  ///< where they are now (an operand's `tensor.data`)
  void* to = nullptr;          ///< where they are to be
  /// 0: the operands that begin at `from`. Else all that begin in [from, from + bytes), each at its
  /// distance from `from`; one that reaches beyond is Invalid.
  std::size_t bytes = 0;
};

/// A captured program over fixed pointers. Owns everything its nodes point to except the caller's
/// operands. Move-only. One executable may be used from several threads only under the caller's
/// lock; different executables share nothing. Destroying it while a launch is still running is
/// safe and does not block.
class Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  /// Enqueues one replay on `stream` (null: the legacy default stream), after all work already
  /// there and after this executable's previous launch. No allocation, lock or synchronisation of
  /// ours. `stream` must stay alive until the launch has finished, and for wait() until that has
  /// returned; it belongs to the program's GPU, which is not checked. CaptureActive if `stream` is
  /// being captured (that capture stays intact). Host target: runs the program before it returns;
  /// `stream` is ignored.
  [[nodiscard]] Status launch(Stream stream = nullptr) noexcept;

  /// Enqueues the same steps one after the other on `stream`, without the graph: what a replay
  /// saves, and a way to look at single kernels. Costs host time for each step; runs the user
  /// steps' functions again. The caller orders it against launches and other calls of enqueue on
  /// other streams: all use one workspace, and in it kernels whose blocks wait for one another keep
  /// count, so that what runs at once may never end. Destroying the executable then waits for it.
  /// Errors as for launch; DeviceMismatch if `stream` belongs to another GPU.
  [[nodiscard]] Status enqueue(Stream stream = nullptr) noexcept;

  /// Blocks until the last launch (or enqueue) has finished; reports what went wrong on the device.
  /// Ok if nothing was launched. A launch on the per-thread default stream is waited for by the
  /// thread that made it; another thread's wait() cannot name that stream and waits for its own.
  [[nodiscard]] Status wait() noexcept;

  /// Moves operands to other memory for all launches to come; launches already enqueued keep the
  /// old. What moves, or where need be the whole program, is recorded again with the same
  /// candidates (user steps' CUDA functions may run again) and the executable is updated in place:
  /// microseconds, no tuning, no waiting. A step whose candidate cannot serve the new pointers
  /// (less aligned, other operands in one place, overlapping views that move apart) is planned
  /// anew, a user step's then with the function that capture copied, and a graph that cannot be
  /// updated, or whose order of steps changes, is instantiated anew, once; both cost what a capture
  /// without tuning costs and wait for the last launch. All moves are done at once, so two buffers
  /// can change places. All or nothing: after an error the executable is what it was, or the error
  /// says that CUDA would not put it back and that it works no more. Errors: Invalid (`from` is no
  /// operand, or one of the library's own temporaries; an operand with elements would be at null; a
  /// graph with a node that cannot be switched off, a host function or a cooperative kernel, would
  /// have to be instantiated anew while a launch may be running: wait() first), those of
  /// plan_forward and plan_backward over the new pointers (Overlap, ...), those of capture. Not in
  /// use by another thread meanwhile. Contents are not copied.
  [[nodiscard]] Status rebind(std::span<const Rebinding> moves) noexcept;
  [[nodiscard]] Status rebind(std::initializer_list<Rebinding> moves) noexcept {
    return rebind(std::span<const Rebinding>(moves.begin(), moves.size()));
  }

  /// An executable of its own for the same program with `moves` applied: same candidates, own
  /// workspace, nothing shared, so that both may be used at once (where they write different
  /// memory). No tuning. This executable stays as it is. User steps' functions are those that
  /// capture copied, in the state they had then. Errors as for rebind.
  [[nodiscard]] Result<Executable> clone(std::span<const Rebinding> moves) const noexcept;
  [[nodiscard]] Result<Executable> clone(
      std::initializer_list<Rebinding> moves = {}) const noexcept {
    return clone(std::span<const Rebinding>(moves.begin(), moves.size()));
  }

  /// Holds `what`, in place of what was held before (that is let go at once, whatever is running),
  /// as long as a launch of this executable may use memory: until it is destroyed or, where that
  /// happens in flight, until a later capture, rebind that instantiates anew, wait or destruction
  /// of any executable on CUDA, or direct call, that finds the last launch over (on that call's
  /// thread). For owners of operands. A clone holds nothing of it. No lock of the library is held
  /// while `what` goes, so its deleter may take locks and call any function of the library, except
  /// of an executable that is being destroyed; it must not throw. Where CUDA does not say whether
  /// the last launch is over (after a fatal error on the device), and at the end of the process,
  /// what is still held stays.
  void hold(std::shared_ptr<const void> what) noexcept;

  /// What the next launch reads and writes outside the library, in program order. Valid until the
  /// next rebind.
  [[nodiscard]] const std::vector<BoundOperand>& operands() const noexcept;

  // These and workspace_bytes() change with a rebind that plans or instantiates anew, and what they
  // gave before is valid until then.

  /// For each choice: the candidate, its time, the runner-up, and why the others were not taken; of
  /// one from the tuning file: that, its time, the runner-up then, and how many were timed. At the
  /// end, where capture had a choice, on how many lanes the steps run.
  [[nodiscard]] const std::string& explain() const noexcept;
  /// What choosing took when the program was captured; a clone chose nothing.
  [[nodiscard]] const TuningReport& tuning() const noexcept;
  [[nodiscard]] const std::vector<Node>& nodes() const noexcept;
  /// nodes() in Graphviz's language.
  [[nodiscard]] const std::string& dot() const noexcept;
  /// Device memory owned (host memory on the host target).
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  [[nodiscard]] Target target() const noexcept;

  class Impl;  ///< the library's own
  explicit Executable(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ai
