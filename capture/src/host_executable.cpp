#include "capture/host_executable.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "capture/choice.hpp"
#include "capture/enqueue.hpp"
#include "capture/executable_impl.hpp"
#include "capture/rebinding.hpp"

namespace ai::detail {
namespace {

constexpr std::align_val_t kAlignment{256};

struct AlignedDelete {
  void operator()(void* data) const noexcept { ::operator delete(data, kAlignment); }
};
using HostMemory = std::unique_ptr<void, AlignedDelete>;

std::vector<Node> nodes_of(const Blueprint& blueprint, std::vector<std::vector<int>> dependencies) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < blueprint.steps.size(); ++i) {
    nodes.push_back({blueprint.steps[i].step->name(), "host", std::move(dependencies[i])});
  }
  return nodes;
}

/// What the steps of a blueprint need, and what there is to say of them.
struct HostParts {
  HostMemory memory;
  ExecutableInfo info;
};

Result<HostParts> build(Blueprint& blueprint) {
  std::vector<std::vector<int>> dependencies = blueprint.hazards.dependencies();
  const WorkspacePlan workspace = plan_workspace(blueprint, dependencies);
  HostParts parts;
  if (workspace.bytes > 0) {
    parts.memory.reset(::operator new(workspace.bytes, kAlignment, std::nothrow));
    if (parts.memory == nullptr) {
      return Status(StatusCode::OutOfMemory, "the workspace of " + std::to_string(workspace.bytes) +
                                                 " bytes could not be allocated on the host");
    }
  }
  for (const Placement& state : workspace.state) {
    std::memset(static_cast<std::byte*>(parts.memory.get()) + state.offset, 0, state.bytes);
  }
  bind(blueprint, workspace, parts.memory.get());
  parts.info.target = Target::Host;
  parts.info.workspace_bytes = workspace.bytes;
  parts.info.explain = explain(blueprint);
  parts.info.nodes = nodes_of(blueprint, std::move(dependencies));
  parts.info.dot = dot(parts.info.nodes);
  return parts;
}

class HostExecutable final : public Executable::Impl {
 public:
  HostExecutable(Blueprint blueprint, HostParts parts) noexcept
      : Impl(std::move(blueprint), std::move(parts.info)), memory_(std::move(parts.memory)) {}

  Status launch(Stream) noexcept override try {
    for (const BoundStep& bound : blueprint_.steps) {
      const AddressMap& addresses = blueprint_.items[bound.item].addresses;
      AI_RETURN_IF_ERROR(detail::enqueue(*bound.step, addresses, nullptr));
    }
    return {};
  } catch (const std::bad_alloc&) {
    return {StatusCode::OutOfMemory, {}};
  }

  Status enqueue(Stream stream) noexcept override { return launch(stream); }
  Status wait() noexcept override { return {}; }

  Status rebind(std::span<const Rebinding> moves) override {
    Result<Moves> resolved = resolve(blueprint_, moves);
    AI_RETURN_IF_ERROR(resolved.status());
    if (resolved->in_place) {
      apply(blueprint_, *resolved);
      return {};
    }
    Result<Blueprint> next = rebuilt(blueprint_, *resolved, false);
    AI_RETURN_IF_ERROR(next.status());
    Result<HostParts> parts = build(*next);
    AI_RETURN_IF_ERROR(parts.status());
    blueprint_ = std::move(*next);
    memory_ = std::move(parts->memory);
    info_ = std::move(parts->info);
    return {};
  }

  Result<Executable> clone(std::span<const Rebinding> moves) const override {
    Result<Moves> resolved = resolve(blueprint_, moves);
    if (!resolved) return resolved.status();
    Result<Blueprint> next = rebuilt(blueprint_, *resolved, true);
    if (!next) return next.status();
    return make_host_executable(std::move(*next));
  }

  void hold(std::shared_ptr<const void> what) noexcept override { held_.swap(what); }

 private:
  HostMemory memory_;
  std::shared_ptr<const void> held_;
};

}  // namespace

Result<Executable> make_host_executable(Blueprint blueprint) {
  Result<HostParts> parts = build(blueprint);
  if (!parts) return parts.status();
  return Executable(std::make_unique<HostExecutable>(std::move(blueprint), std::move(*parts)));
}

}  // namespace ai::detail
