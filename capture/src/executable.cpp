#include "ai/executable.hpp"

#include <new>
#include <optional>
#include <utility>

#include "capture/executable_impl.hpp"
#include "capture/guarded.hpp"

namespace ai {
namespace {

const ExecutableInfo kMovedFrom{};
const std::vector<BoundOperand> kNoOperands;

Status moved_from() noexcept {
  return {StatusCode::Invalid, "moved from"};
}

}  // namespace

const char* to_string(Target target) noexcept {
  switch (target) {
    case Target::Auto: return "Auto";
    case Target::Host: return "Host";
    case Target::CUDA: return "CUDA";
  }
  return "unknown";
}

Executable::Executable(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

Status Executable::launch(Stream stream) noexcept {
  return impl_ != nullptr ? impl_->launch(stream) : moved_from();
}

Status Executable::enqueue(Stream stream) noexcept {
  return impl_ != nullptr ? impl_->enqueue(stream) : moved_from();
}

Status Executable::wait() noexcept {
  return impl_ != nullptr ? impl_->wait() : moved_from();
}

Status Executable::rebind(std::span<const Rebinding> moves) noexcept {
  if (impl_ == nullptr) return moved_from();
  return detail::guarded([&] { return impl_->rebind(moves); });
}

Result<Executable> Executable::clone(std::span<const Rebinding> moves) const noexcept {
  if (impl_ == nullptr) return moved_from();
  std::optional<Result<Executable>> made;
  const Status status = detail::guarded([&] {
    made.emplace(impl_->clone(moves));
    return Status();
  });
  if (!made) return status;
  return std::move(*made);
}

void Executable::hold(std::shared_ptr<const void> what) noexcept {
  if (impl_ != nullptr) impl_->hold(std::move(what));
}

const std::vector<BoundOperand>& Executable::operands() const noexcept {
  return impl_ != nullptr ? impl_->operands() : kNoOperands;
}

const TuningReport& Executable::tuning() const noexcept {
  return impl_ != nullptr ? impl_->info().tuning : kMovedFrom.tuning;
}
const std::string& Executable::explain() const noexcept {
  return impl_ != nullptr ? impl_->info().explain : kMovedFrom.explain;
}

const std::vector<Node>& Executable::nodes() const noexcept {
  return impl_ != nullptr ? impl_->info().nodes : kMovedFrom.nodes;
}

const std::string& Executable::dot() const noexcept {
  return impl_ != nullptr ? impl_->info().dot : kMovedFrom.dot;
}

std::size_t Executable::workspace_bytes() const noexcept {
  return impl_ != nullptr ? impl_->info().workspace_bytes : 0;
}

Target Executable::target() const noexcept {
  return impl_ != nullptr ? impl_->info().target : Target::Auto;
}

}  // namespace ai
