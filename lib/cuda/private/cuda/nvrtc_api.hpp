#pragma once

#include <nvrtc.h>

#include "ai/status.hpp"
#include "cuda/dynamic_library.hpp"

namespace ai::cuda {

/// Every NVRTC function the library calls.
struct NvrtcApi {
  decltype(&::nvrtcVersion) version;
  decltype(&::nvrtcGetErrorString) get_error_string;
  decltype(&::nvrtcCreateProgram) create_program;
  decltype(&::nvrtcDestroyProgram) destroy_program;
  decltype(&::nvrtcCompileProgram) compile_program;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size;
  decltype(&::nvrtcGetCUBIN) get_cubin;
  decltype(&::nvrtcGetProgramLogSize) get_program_log_size;
  decltype(&::nvrtcGetProgramLog) get_program_log;
  decltype(&::nvrtcAddNameExpression) add_name_expression;
  decltype(&::nvrtcGetLoweredName) get_lowered_name;
};

/// NVRTC, loaded by the first call that needs it, and remembered, as is that it cannot be:
/// Unsupported, where the library is not found or has another major version than the one compiled
/// against. The table lives as long as the process. Thread-safe.
[[nodiscard]] Result<const NvrtcApi*> nvrtc_api() noexcept;

/// As nvrtc_api(), through `loader` and without memory.
[[nodiscard]] Result<NvrtcApi> load_nvrtc_api(const LoaderApi& loader) noexcept;

/// As CUDA numbers versions: 13010 for 13.1. May throw std::bad_alloc.
[[nodiscard]] Result<int> nvrtc_version(const NvrtcApi& nvrtc);

/// NVRTC_ERROR_OUT_OF_MEMORY -> OutOfMemory; everything else that is no success -> CudaError. The
/// message names `call` and the code.
[[nodiscard]] Status to_status(const NvrtcApi& nvrtc, nvrtcResult code, const char* call) noexcept;

}  // namespace ai::cuda
