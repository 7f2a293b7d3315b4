#pragma once

#include <span>
#include <vector>

#include "ai/backend.hpp"
#include "cuda/cubin_recall.hpp"
#include "kernels/machine.hpp"

namespace ai::kernels {

/// Backend::fuse: each run as one launch of the chain kernel, in the shapes that look quickest.
/// All that has to be compiled is compiled together. The machine's device is current. May throw
/// std::bad_alloc.
[[nodiscard]] Result<std::vector<Task>> fuse_chains(Machine& machine, cuda::NvrtcLoader load_nvrtc,
                                                    std::span<const PlanRun> runs,
                                                    const FuseOptions& options,
                                                    const Recall& recall);

}  // namespace ai::kernels
