#pragma once

#include <memory>

#include "ai/backend.hpp"
#include "cuda/cubin_recall.hpp"
#include "kernels/machine.hpp"

namespace ai::kernels {

/// make_cuda_backend over any runtime, cuBLASLt and run-time compiler, so that lowering can be
/// tested without a GPU.
[[nodiscard]] std::unique_ptr<Backend> make_backend(
    const cuda::Api& api, Machine::LtLoader load_lt, int device,
    cuda::NvrtcLoader load_nvrtc = &cuda::nvrtc_api);

}  // namespace ai::kernels
