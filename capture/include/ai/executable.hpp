#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ai/status.hpp"
#include "ai/step.hpp"

namespace ai {

enum class Target { Auto, Host, CUDA };
[[nodiscard]] const char* to_string(Target target) noexcept;

/// One node of the captured graph (CUDA) or one step (host).
struct Node {
  std::string name;             ///< the step it came from
  std::string kind;             ///< "kernel", "memset", "memcpy", "host", ...
  std::vector<int> depends_on;  ///< indices into nodes()
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
  /// returned. CaptureActive if `stream` is being captured (that capture stays intact). Host
  /// target: runs the program before it returns; `stream` is ignored.
  [[nodiscard]] Status launch(Stream stream = nullptr) noexcept;

  /// Enqueues the same steps one after the other on `stream`, without the graph: what a replay
  /// saves, and a way to look at single kernels. Costs host time for each step; runs the user
  /// steps' functions again. The caller orders it against launches on other streams: both use one
  /// workspace. Destroying the executable then waits for it. Errors as for launch.
  [[nodiscard]] Status enqueue(Stream stream = nullptr) noexcept;

  /// Blocks until the last launch (or enqueue) has finished; reports what went wrong on the device.
  /// Ok if nothing was launched.
  [[nodiscard]] Status wait() noexcept;

  /// For each choice: the candidate, its time, the runner-up, and why the others were not taken.
  [[nodiscard]] const std::string& explain() const noexcept;
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
