#pragma once

#include <cuda_runtime_api.h>

#include "ai/status.hpp"
#include "cuda/api.hpp"

namespace ai::cuda {

/// Turns the return code of `call` ("cudaGraphInstantiate", the table's name for it,
/// "graph_instantiate", or a library's function, "cub::DeviceReduce::Reduce") into a Status, and
/// takes the error out of the thread's last-error slot: it was ours and is now reported. Ok costs
/// nothing. cudaErrorMemoryAllocation -> OutOfMemory; the capture errors -> CaptureInvalidated; no
/// device or driver, code for other devices only, or a call that this device cannot do ->
/// Unsupported; everything else -> CudaError. The message names call, code and text; an
/// error that has corrupted the context says that it is sticky and may stem from earlier work.
[[nodiscard]] Status to_status(const Api& api, cudaError_t code, const char* call) noexcept;

/// The same for a code that is in no slot, as those of driver calls: the last-error slot stays as
/// it is.
[[nodiscard]] Status describe(const Api& api, cudaError_t code, const char* call) noexcept;

}  // namespace ai::cuda

/// Calls `api.function(...)`, returns from the enclosing function on failure.
#define AI_CUDA_RETURN_IF_ERROR(api, function, ...) \
  AI_RETURN_IF_ERROR(::ai::cuda::to_status((api), (api).function(__VA_ARGS__), #function))
