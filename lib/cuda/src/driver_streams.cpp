#include "cuda/driver_streams.hpp"

#include <pthread.h>

#include <atomic>

namespace ai::cuda {
namespace {

constinit std::atomic<bool> forked{false};

void mark_as_forked() {
  forked.store(true, std::memory_order_relaxed);
}

}  // namespace

bool is_forked() noexcept {
  return forked.load(std::memory_order_relaxed);
}

void* driver_function(const Api& api, const char* symbol, unsigned version) noexcept {
  if (api.get_driver_entry_point == nullptr) return nullptr;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  if (api.get_driver_entry_point(symbol, &address, version, cudaEnableLegacyStream, &found) !=
      cudaSuccess) {
    (void)api.get_last_error();
    return nullptr;
  }
  return found == cudaDriverEntryPointSuccess ? address : nullptr;
}

DriverStreams driver_streams(const Api& api) noexcept {
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, &mark_as_forked);
  DriverStreams driver;
  driver.is_capturing =
      reinterpret_cast<decltype(driver.is_capturing)>(driver_function(api, "cuStreamIsCapturing"));
  driver.get_id = reinterpret_cast<decltype(driver.get_id)>(driver_function(api, "cuStreamGetId"));
  driver.get_context =
      reinterpret_cast<decltype(driver.get_context)>(driver_function(api, "cuStreamGetCtx"));
  driver.device_of_context = reinterpret_cast<decltype(driver.device_of_context)>(
      driver_function(api, "cuCtxGetDevice", 13000));
  return driver;
}

cudaError_t is_capturing(const Api& api, const DriverStreams& driver, cudaStream_t stream,
                         cudaStreamCaptureStatus* status) noexcept {
  CUstreamCaptureStatus answer = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.is_capturing != nullptr && !is_forked() &&
      driver.is_capturing(stream, &answer) == CUDA_SUCCESS) {
    *status = static_cast<cudaStreamCaptureStatus>(answer);
    return cudaSuccess;
  }
  return api.stream_is_capturing(stream, status);
}

cudaError_t get_id(const Api& api, const DriverStreams& driver, cudaStream_t stream,
                   unsigned long long* id) noexcept {
  if (!is_default(stream) && driver.get_id != nullptr && !is_forked() &&
      driver.get_id(stream, id) == CUDA_SUCCESS) {
    return cudaSuccess;
  }
  return api.stream_get_id(stream, id);
}

std::optional<int> device_of(const DriverStreams& driver, cudaStream_t stream) noexcept {
  if (driver.get_context == nullptr || driver.device_of_context == nullptr || is_forked()) {
    return std::nullopt;
  }
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (driver.get_context(stream, &context) != CUDA_SUCCESS || context == nullptr ||
      driver.device_of_context(&device, context) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return device;
}

}  // namespace ai::cuda
