#pragma once

#include <memory>
#include <vector>

#include "ai/memory.hpp"
#include "ai/step.hpp"
#include "capture/executable_impl.hpp"
#include "capture/workspace.hpp"

namespace ai::detail {

/// `steps` on the CPU, one after the other at every launch, over a workspace of its own. Fails with
/// OutOfMemory. May throw std::bad_alloc.
[[nodiscard]] Result<std::unique_ptr<Executable::Impl>> make_host_executable(
    std::vector<std::shared_ptr<Step>> steps, const WorkspacePlan& workspace, ExecutableInfo info);

}  // namespace ai::detail
