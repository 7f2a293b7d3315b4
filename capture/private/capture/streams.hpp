#pragma once

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// Why a stream would not say whether it is being captured: `code` is what cudaStreamIsCapturing
/// returned. Ok for cudaSuccess.
[[nodiscard]] Status unknown_state(const cuda::Api& api, cudaError_t code) noexcept;

/// DeviceMismatch where `stream` belongs to another device than `device`, which is current. CUDA
/// does not say so itself: it may run kernels on the stream's device then. Leaves a capture of the
/// stream as it is. May throw std::bad_alloc.
[[nodiscard]] Status check_owner(const cuda::Api& api, Stream stream, int device);

}  // namespace ai::detail
