#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "cuda/api.hpp"

namespace ai::cuda {

/// The driver calls that cudaStreamIsCapturing and cudaStreamGetId end in (handles of the runtime
/// are handles of the driver), at a third of the cost. Null where they are not found.
struct DriverStreams {
  CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus*) = nullptr;
  CUresult (*get_id)(CUstream, unsigned long long*) = nullptr;
  // For device_of().
  CUresult (*get_context)(CUstream, CUcontext*) = nullptr;
  CUresult (*device_of_context)(CUdevice*, CUcontext) = nullptr;
};

/// Looks the functions up. Leaves no error behind. From the first time on, is_forked() tells.
[[nodiscard]] DriverStreams driver_streams(const Api& api) noexcept;

/// cudaStreamIsCapturing and cudaStreamGetId; the device that a default stream means is current.
/// Where the driver's own call is not to be had, is not meant for the stream (the ids of the
/// default ones) or fails, the runtime's does the work and says what is wrong.
[[nodiscard]] cudaError_t is_capturing(const Api& api, const DriverStreams& driver,
                                       cudaStream_t stream,
                                       cudaStreamCaptureStatus* status) noexcept;
[[nodiscard]] cudaError_t get_id(const Api& api, const DriverStreams& driver, cudaStream_t stream,
                                 unsigned long long* id) noexcept;

/// The device of a stream that is none of the default ones, by its context; null where the driver
/// does not tell. A capture of the stream goes on: cudaStreamGetDevice is refused there, and
/// invalidates the capture (CUDA 13.0; https://github.com/NVIDIA/cccl/pull/9119).
[[nodiscard]] std::optional<int> device_of(const DriverStreams& driver,
                                           cudaStream_t stream) noexcept;

/// The null, legacy and per-thread streams have no device of their own: they mean the current one.
[[nodiscard]] inline bool is_default(cudaStream_t stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <=
         reinterpret_cast<std::uintptr_t>(cudaStreamPerThread);
}

/// Whether this process is a fork of one that has used the library on a GPU. CUDA does not work in
/// it: the runtime says so (cudaErrorInitializationError), but the driver's cuGraphLaunch reports
/// success there (seen with 580.159). So the driver's functions are not to be called then.
[[nodiscard]] bool is_forked() noexcept;

/// A driver function in the form that it has in this version of CUDA (12000: 12.0); null where
/// there is none. Leaves no error behind.
[[nodiscard]] void* driver_function(const Api& api, const char* symbol,
                                    unsigned version = 12000) noexcept;

}  // namespace ai::cuda
