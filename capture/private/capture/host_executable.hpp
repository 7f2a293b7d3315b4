#pragma once

#include "ai/executable.hpp"
#include "capture/blueprint.hpp"

namespace ai::detail {

/// The steps of `blueprint` on the CPU, one after the other at every launch, over a workspace of
/// its own. Fails with OutOfMemory. May throw std::bad_alloc.
[[nodiscard]] Result<Executable> make_host_executable(Blueprint blueprint);

}  // namespace ai::detail
