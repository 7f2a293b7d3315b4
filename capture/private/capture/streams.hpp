#pragma once

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "cuda/api.hpp"
#include "cuda/driver_streams.hpp"

namespace ai::detail {

/// Why a stream would not say whether it is being captured: `code` is what cudaStreamIsCapturing
/// returned. Ok for cudaSuccess.
[[nodiscard]] Status unknown_state(const cuda::Api& api, cudaError_t code) noexcept;

/// DeviceMismatch where `stream` belongs to another device than `device`, which is current. CUDA
/// does not always say so itself: a kernel may be taken there, too. The stream is not being
/// captured. Without the driver's functions the runtime is asked, at more cost. May throw
/// std::bad_alloc.
[[nodiscard]] Status check_owner(const cuda::Api& api, const cuda::DriverStreams& driver,
                                 Stream stream, int device);

/// The same of a stream that is being captured, which stays so. Ok where the driver does not tell.
[[nodiscard]] Status check_owner_of_captured(const cuda::DriverStreams& driver, Stream stream,
                                             int device);

}  // namespace ai::detail
