#include "cuda/error.hpp"

#include <cctype>
#include <new>
#include <string>
#include <string_view>

namespace ai::cuda {
namespace {

StatusCode class_of(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorMemoryAllocation: return StatusCode::OutOfMemory;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread: return StatusCode::CaptureInvalidated;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorNotSupported: return StatusCode::Unsupported;
    default: return StatusCode::CudaError;
  }
}

// These stay with the process's context: every later call returns them, whoever made the mistake.
bool is_sticky(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorContained: return true;
    default: return false;
  }
}

// "memset_2d_async" -> "cudaMemset2DAsync"; a name that CUDA itself uses stays.
std::string cuda_name(std::string_view call) {
  if (call.starts_with("cu")) return std::string(call);
  std::string name = "cuda";
  bool upper = true;
  for (const char c : call) {
    if (c == '_') {
      upper = true;
      continue;
    }
    name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = std::isdigit(static_cast<unsigned char>(c)) != 0;
  }
  return name;
}

}  // namespace

Status to_status(const Api& api, cudaError_t code, const char* call) noexcept {
  if (code == cudaSuccess) return {};
  (void)api.get_last_error();
  return describe(api, code, call);
}

Status describe(const Api& api, cudaError_t code, const char* call) noexcept {
  if (code == cudaSuccess) return {};
  try {
    std::string message = cuda_name(call) + " failed: " + api.get_error_name(code) + " (" +
                          std::to_string(static_cast<int>(code)) +
                          "): " + api.get_error_string(code);
    if (is_sticky(code)) {
      message +=
          "; the error is sticky: it may stem from earlier work on this device, and every later "
          "CUDA call of this process will report it";
    }
    if (code == cudaErrorInitializationError) {
      message +=
          "; a process that was forked after CUDA was first used in its parent cannot use it: fork "
          "before, or start a new program";
    }
    return {class_of(code), std::move(message)};
  } catch (const std::bad_alloc&) {
    return {class_of(code), {}};
  }
}

}  // namespace ai::cuda
