#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ai/executable.hpp"
#include "held.hpp"
#include "last_hold.hpp"
#include "moves.hpp"
#include "retired.hpp"
#include "tensor.hpp"

namespace ge_python {

namespace nb = nanobind;

/// An operand of an executable, with what keeps its memory alive.
struct BoundOperand {
  std::string item;
  std::string name;
  Tensor tensor;

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(tensor.owner.ptr());
    return 0;
  }
  void clear() { tensor.owner.reset(); }
};

/// What Python knows as Executable. Every method is called with the GIL, gives it up, and only then
/// takes the executable's lock, so that threads take turns and a thread that waits holds nobody up;
/// the GIL may be taken within the lock, as steps do. Called by a step of its own executable, a
/// method is Invalid.
class Executable {
 public:
  Executable(ai::Executable executable, Held held);
  /// What it held stays until the last launch is over.
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  void launch(ai::Stream stream);
  void enqueue(ai::Stream stream);
  void wait();
  void rebind(nb::handle moves);
  [[nodiscard]] std::unique_ptr<Executable> clone(nb::handle moves);

  [[nodiscard]] std::string explain();
  [[nodiscard]] ai::TuningReport tuning();
  [[nodiscard]] std::string dot();
  [[nodiscard]] std::vector<ai::Node> nodes();
  [[nodiscard]] std::vector<BoundOperand> operands();
  [[nodiscard]] std::size_t workspace_bytes();
  [[nodiscard]] ai::Target target() const noexcept { return target_; }
  /// Never waits and never raises.
  [[nodiscard]] std::string repr();

  int traverse(visitproc visit, void* arg) const;
  /// It can do nothing afterwards.
  void clear() noexcept;

 private:
  class Turn;
  template <typename Use>
  void in_turn(const Use& use);
  [[nodiscard]] std::vector<Move> moves_of(nb::handle moves);
  void release_retired(std::size_t groups, Retired::Objects& objects);

  ai::Executable executable_;
  const ai::Target target_;
  Held held_;
  Retired retired_;
  std::shared_ptr<LastHold> last_hold_;  // the library's own; none once cleared
  std::mutex mutex_;
  std::atomic<const void*> inside_{nullptr};  // the thread whose turn it is
  const void* last_launcher_ = nullptr;       // the thread of the last launch
};

}  // namespace ge_python
