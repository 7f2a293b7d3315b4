#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ai/executable.hpp"
#include "capture/blueprint.hpp"

namespace ai {

/// What an Executable says of itself.
struct ExecutableInfo {
  Target target = Target::CUDA;
  std::size_t workspace_bytes = 0;
  std::vector<Node> nodes = {};
  std::string explain = {};
  std::string dot = {};
  TuningReport tuning = {};
};

class Executable::Impl {
 public:
  Impl(detail::Blueprint blueprint, ExecutableInfo info) noexcept
      : blueprint_(std::move(blueprint)), info_(std::move(info)) {}
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] virtual Status launch(Stream stream) noexcept = 0;
  [[nodiscard]] virtual Status enqueue(Stream stream) noexcept = 0;
  [[nodiscard]] virtual Status wait() noexcept = 0;
  /// May throw std::bad_alloc and what copying a user step's function throws, as may clone.
  [[nodiscard]] virtual Status rebind(std::span<const Rebinding> moves) = 0;
  [[nodiscard]] virtual Result<Executable> clone(std::span<const Rebinding> moves) const = 0;
  virtual void hold(std::shared_ptr<const void> what) noexcept = 0;
  [[nodiscard]] const ExecutableInfo& info() const noexcept { return info_; }
  [[nodiscard]] const std::vector<BoundOperand>& operands() const noexcept {
    return blueprint_.operands;
  }

 protected:
  // Changed by rebind only.
  detail::Blueprint blueprint_;
  ExecutableInfo info_;
};

}  // namespace ai
