#include "executable.hpp"

#include <cstdint>
#include <optional>

#include "gc.hpp"
#include "gil.hpp"
#include "python_step.hpp"
#include "status.hpp"

namespace ge_python {
namespace {

/// An address that no other living thread has.
const void* this_thread() noexcept {
  static thread_local const char token = 0;
  return &token;
}

bool is_per_thread(ai::Stream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) == 2;
}

int device_of(const ai::Executable& executable) noexcept {
  if (executable.target() != ai::Target::CUDA) return -1;
  for (const ai::BoundOperand& operand : executable.operands()) {
    if (operand.tensor.device == ai::Device::CUDA) return operand.tensor.device_index;
  }
  return 0;
}

}  // namespace

/// The lock, for a scope without the GIL.
class Executable::Turn {
 public:
  explicit Turn(Executable& self) : self_(self) {
    const void* const me = this_thread();
    if (self.inside_.load(std::memory_order_relaxed) == me) [[unlikely]]
      return;
    self.mutex_.lock();
    self.inside_.store(me, std::memory_order_relaxed);
    taken_ = true;
  }
  ~Turn() {
    if (!taken_) return;
    self_.inside_.store(nullptr, std::memory_order_relaxed);
    self_.mutex_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return taken_; }

 private:
  Executable& self_;
  bool taken_ = false;
};

/// Does `use`, which returns a Status, without the GIL and within the lock; raises what comes of
/// it.
template <typename Use>
void Executable::in_turn(const Use& use) {
  const StepErrors errors;
  ai::Status status;
  {
    const WithoutGil unlocked;
    const Turn turn(*this);
    status = turn ? use()
                  : ai::Status(ai::StatusCode::Invalid,
                               "the executable is in use by a step of its own, expected none of "
                               "its methods to be called there");
  }
  errors.check(status);
}

Executable::Executable(ai::Executable executable, Held held)
    : executable_(std::move(executable)),
      target_(executable_.target()),
      held_(std::move(held)),
      retired_(device_of(executable_)),
      last_hold_(std::make_shared<LastHold>()) {
  executable_.hold(last_hold_);
}

Executable::~Executable() {
  clear();
}

void Executable::clear() noexcept {
  if (last_hold_ == nullptr) return;
  last_hold_->take(std::move(held_), std::move(retired_));
  last_hold_.reset();
  std::optional<WithoutGil> unlocked;
  if (!python_is_ending()) unlocked.emplace();
  const ai::Executable gone = std::move(executable_);
}

int Executable::traverse(visitproc visit, void* arg) const {
  if (const int stop = held_.traverse(visit, arg)) return stop;
  return retired_.traverse(visit, arg);
}

/// Moves what no launch needs any more to `objects`, to be destroyed without the lock.
void Executable::release_retired(std::size_t groups, Retired::Objects& objects) {
  if (groups == 0) return;
  const WithGil locked;
  retired_.take(groups, objects);
}

void Executable::launch(ai::Stream stream) {
  Retired::Objects released;
  in_turn([&] {
    ai::Status status = executable_.launch(stream);
    if (!status.ok()) return status;
    last_launcher_ = this_thread();
    retired_.launched(stream);
    if (retired_.any()) [[unlikely]]
      release_retired(retired_.over(), released);
    return status;
  });
}

void Executable::enqueue(ai::Stream stream) {
  in_turn([&] {
    ai::Status status = executable_.enqueue(stream);
    retired_.enqueued();  // also where a step has failed behind others
    return status;
  });
}

void Executable::wait() {
  Retired::Objects released;
  in_turn([&] {
    ai::Status status = executable_.wait();
    if (!status.ok()) return status;
    // A thread waits for its own per-thread stream only.
    const bool everything =
        !is_per_thread(retired_.last_stream()) || last_launcher_ == this_thread();
    release_retired(everything ? retired_.all_over() : retired_.over(), released);
    return status;
  });
}

std::vector<Move> Executable::moves_of(nb::handle moves) {
  std::vector<ai::BoundOperand> operands;
  in_turn([&] {
    operands = executable_.operands();
    return ai::Status();
  });
  return ge_python::moves_of(moves, operands);
}

void Executable::rebind(nb::handle moves) {
  const std::vector<Move> wanted = moves_of(moves);
  // Destroyed with the GIL and without the lock: Python code may run then.
  Held next;
  Retired::Objects moved_away;
  Retired::Objects released;
  in_turn([&] {
    AI_RETURN_IF_ERROR(fit(wanted, executable_.operands()));
    {
      const WithGil locked;
      next = after(wanted, held_, moved_away);
    }
    ai::Status status = executable_.rebind(rebindings_of(wanted));
    if (!status.ok()) return status;
    const std::size_t over = retired_.over();
    const WithGil locked;
    std::swap(held_, next);
    retired_.take(over, released);
    retired_.retire(moved_away);
    return status;
  });
}

std::unique_ptr<Executable> Executable::clone(nb::handle moves) {
  std::vector<Move> wanted;
  if (!moves.is_none()) wanted = moves_of(moves);
  Held held;
  Retired::Objects not_held;
  std::optional<ai::Executable> made;
  in_turn([&] {
    AI_RETURN_IF_ERROR(fit(wanted, executable_.operands()));
    {
      const WithGil locked;
      held = after(wanted, held_, not_held);
    }
    ai::Result<ai::Executable> result = executable_.clone(rebindings_of(wanted));
    if (result) made.emplace(std::move(*result));
    return result.status();
  });
  return std::make_unique<Executable>(std::move(*made), std::move(held));
}

std::string Executable::explain() {
  std::string text;
  in_turn([&] {
    text = executable_.explain();
    return ai::Status();
  });
  return text;
}

ai::TuningReport Executable::tuning() {
  ai::TuningReport report;
  in_turn([&] {
    report = executable_.tuning();
    return ai::Status();
  });
  return report;
}

std::string Executable::dot() {
  std::string text;
  in_turn([&] {
    text = executable_.dot();
    return ai::Status();
  });
  return text;
}

std::vector<ai::Node> Executable::nodes() {
  std::vector<ai::Node> nodes;
  in_turn([&] {
    nodes = executable_.nodes();
    return ai::Status();
  });
  return nodes;
}

std::vector<BoundOperand> Executable::operands() {
  std::vector<BoundOperand> operands;
  in_turn([&] {
    const WithGil locked;
    for (const ai::BoundOperand& operand : executable_.operands()) {
      nb::object owner = held_.owner_of(operand.tensor.data);
      operands.push_back({operand.item, operand.name, {operand.tensor, std::move(owner)}});
    }
    return ai::Status();
  });
  return operands;
}

std::size_t Executable::workspace_bytes() {
  std::size_t bytes = 0;
  in_turn([&] {
    bytes = executable_.workspace_bytes();
    return ai::Status();
  });
  return bytes;
}

std::string Executable::repr() {
  std::string text = std::string("<Executable on target ") + ai::to_string(target_);
  const bool mine = inside_.load(std::memory_order_relaxed) == this_thread();
  if (mine || !mutex_.try_lock()) return text + ", in use>";
  text += ": " + std::to_string(executable_.nodes().size()) + " nodes, " +
          std::to_string(executable_.workspace_bytes()) + " bytes of workspace>";
  mutex_.unlock();
  return text;
}

}  // namespace ge_python
