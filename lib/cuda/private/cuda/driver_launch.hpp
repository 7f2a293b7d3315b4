#pragma once

#include <cuda.h>

#include "cuda/api.hpp"

namespace ai::cuda {

/// The two driver calls of a replay. They are what cudaStreamIsCapturing and cudaGraphLaunch end in
/// (handles of the runtime are handles of the driver), without the runtime's own cost on each call.
/// Either both are set or neither: then, or when one of them fails, the runtime's functions do the
/// same work and say what is wrong.
struct DriverLaunch {
  CUresult (*stream_is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
  CUresult (*graph_launch)(CUgraphExec, CUstream) = nullptr;

  [[nodiscard]] explicit operator bool() const noexcept { return graph_launch != nullptr; }
};

/// Looks the functions up. Leaves no error behind.
[[nodiscard]] DriverLaunch driver_launch(const Api& api) noexcept;

}  // namespace ai::cuda
