#include "capture/host_executable.hpp"

#include <new>
#include <string>

#include "capture/enqueue.hpp"

namespace ai::detail {
namespace {

constexpr std::align_val_t kAlignment{256};

struct AlignedDelete {
  void operator()(void* data) const noexcept { ::operator delete(data, kAlignment); }
};
using HostMemory = std::unique_ptr<void, AlignedDelete>;

class HostExecutable final : public Executable::Impl {
 public:
  HostExecutable(std::vector<std::shared_ptr<Step>> steps, HostMemory memory, AddressMap addresses,
                 ExecutableInfo info)
      : Impl(std::move(info)),
        memory_(std::move(memory)),
        addresses_(std::move(addresses)),
        steps_(std::move(steps)) {}

  Status launch(Stream) noexcept override try {
    for (const std::shared_ptr<Step>& step : steps_) {
      AI_RETURN_IF_ERROR(detail::enqueue(*step, addresses_, nullptr));
    }
    return {};
  } catch (const std::bad_alloc&) {
    return {StatusCode::OutOfMemory, {}};
  }

  Status enqueue(Stream stream) noexcept override { return launch(stream); }
  Status wait() noexcept override { return {}; }

 private:
  HostMemory memory_;
  AddressMap addresses_;
  std::vector<std::shared_ptr<Step>> steps_;
};

}  // namespace

Result<std::unique_ptr<Executable::Impl>> make_host_executable(
    std::vector<std::shared_ptr<Step>> steps, const WorkspacePlan& workspace, ExecutableInfo info) {
  HostMemory memory;
  if (workspace.bytes > 0) {
    memory.reset(::operator new(workspace.bytes, kAlignment, std::nothrow));
    if (memory == nullptr) {
      return Status(StatusCode::OutOfMemory, "the workspace of " + std::to_string(workspace.bytes) +
                                                 " bytes could not be allocated on the host");
    }
  }
  AddressMap addresses = workspace.over(memory.get());
  return std::unique_ptr<Executable::Impl>(std::make_unique<HostExecutable>(
      std::move(steps), std::move(memory), std::move(addresses), std::move(info)));
}

}  // namespace ai::detail
