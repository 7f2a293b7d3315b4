#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ai/executable.hpp"

namespace ai {

/// What an Executable says of itself. Fixed when it is made.
struct ExecutableInfo {
  Target target = Target::CUDA;
  std::size_t workspace_bytes = 0;
  std::vector<Node> nodes = {};
  std::vector<BoundOperand> operands = {};
  std::string explain = {};
  std::string dot = {};
};

class Executable::Impl {
 public:
  explicit Impl(ExecutableInfo info) noexcept : info_(std::move(info)) {}
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] virtual Status launch(Stream stream) noexcept = 0;
  [[nodiscard]] virtual Status enqueue(Stream stream) noexcept = 0;
  [[nodiscard]] virtual Status wait() noexcept = 0;
  [[nodiscard]] const ExecutableInfo& info() const noexcept { return info_; }

 private:
  const ExecutableInfo info_;
};

}  // namespace ai
