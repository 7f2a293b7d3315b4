#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "ai/step.hpp"

namespace ge_python {

namespace nb = nanobind;

/// What an executable held for operands that have moved away (rebind), until the launches enqueued
/// with their old addresses are over; nothing waits for that. From the first such rebind on, an
/// event is recorded behind each launch. Launches of one executable run one after the other, so an
/// event behind one is behind all earlier ones too.
///
/// Used under the executable's lock; what touches Python's objects needs the GIL as well.
class Retired {
 public:
  using Objects = std::vector<nb::object>;

  /// `device`: that of the launches; negative on the host, where they are over when they return.
  explicit Retired(int device) noexcept : device_(device) {}

  /// Whether launches must be told of and looked after.
  [[nodiscard]] bool any() const noexcept { return !groups_.empty(); }
  [[nodiscard]] bool is_watching() const noexcept { return watching_; }

  /// A launch, or steps enqueued one by one, went to `stream`. The latter are ordered by the
  /// caller, so that only wait() tells when they are over.
  void launched(ai::Stream stream) noexcept {
    used_ = true;
    last_stream_ = stream;
    if (watching_) [[unlikely]]
      mark(stream);
  }
  void enqueued() noexcept { used_ = enqueued_ = true; }
  [[nodiscard]] ai::Stream last_stream() const noexcept { return last_stream_; }

  /// Takes `objects` over, or leaves them where no launch needs them any more. Needs the GIL.
  void retire(Objects& objects) noexcept;
  /// How many groups, oldest first, no launch needs any more.
  [[nodiscard]] std::size_t over() noexcept;
  /// The same where everything that was launched or enqueued is over.
  [[nodiscard]] std::size_t all_over() noexcept;
  /// Moves the objects of the first `groups` to `objects`. Needs the GIL.
  void take(std::size_t groups, Objects& objects);

  int traverse(visitproc visit, void* arg) const;

 private:
  struct Event;
  struct Group {
    Objects objects;
    std::shared_ptr<Event> event;  // none yet: that of the next launch
    bool until_wait = false;
  };
  void mark(ai::Stream stream) noexcept;
  void append(Objects& objects);
  [[nodiscard]] bool is_over(const Group& group) noexcept;

  int device_;
  bool watching_ = false;
  bool used_ = false;      // something went to a stream since operands were last retired
  bool enqueued_ = false;  // steps one by one since then
  ai::Stream last_stream_ = nullptr;
  std::shared_ptr<Event> event_;  // behind the last launch
  std::vector<Group> groups_;     // oldest first
};

}  // namespace ge_python
