#include "cuda/device_info.hpp"

#include <new>

#include "cuda/error.hpp"

namespace ai::cuda {
namespace {

Status check(const Api& api, int device) {
  int runtime = 0;
  int driver = 0;
  AI_CUDA_RETURN_IF_ERROR(api, runtime_get_version, &runtime);
  AI_CUDA_RETURN_IF_ERROR(api, driver_get_version, &driver);
  if (driver == 0) {
    return {StatusCode::Unsupported,
            "no NVIDIA driver is installed, one for CUDA " + version_text(runtime) + " is wanted"};
  }
  if (driver / 1000 < runtime / 1000) {
    return {StatusCode::Unsupported, "the NVIDIA driver is for CUDA " + version_text(driver) +
                                         ", one for CUDA " + std::to_string(runtime / 1000) +
                                         ".0 or later is wanted"};
  }
  int count = 0;
  const cudaError_t code = api.get_device_count(&count);
  if (code == cudaErrorNoDevice) (void)api.get_last_error();
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    return {StatusCode::Unsupported,
            "no GPU is visible to this process (see CUDA_VISIBLE_DEVICES)"};
  }
  AI_RETURN_IF_ERROR(to_status(api, code, "cudaGetDeviceCount"));
  if (device < 0 || device >= count) {
    return {StatusCode::DeviceMismatch, "device " + std::to_string(device) +
                                            " was asked for, but the GPUs are 0 to " +
                                            std::to_string(count - 1)};
  }
  return {};
}

}  // namespace

std::string version_text(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

Status check_device(const Api& api, int device) noexcept try {
  return check(api, device);
} catch (const std::bad_alloc&) {
  return {StatusCode::OutOfMemory, {}};
}

Result<DeviceInfo> device_info(const Api& api, int device) noexcept try {
  AI_RETURN_IF_ERROR(check(api, device));
  DeviceInfo info;
  info.ordinal = device;
  if (api.get_device_properties != nullptr) {
    cudaDeviceProp properties{};
    AI_CUDA_RETURN_IF_ERROR(api, get_device_properties, &properties, device);
    info.name = properties.name;
  }
  const struct {
    int* value;
    cudaDeviceAttr attribute;
  } attributes[] = {
      {&info.compute_major, cudaDevAttrComputeCapabilityMajor},
      {&info.compute_minor, cudaDevAttrComputeCapabilityMinor},
      {&info.sm_count, cudaDevAttrMultiProcessorCount},
      {&info.l2_bytes, cudaDevAttrL2CacheSize},
      {&info.shared_bytes_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin},
  };
  for (const auto& [value, attribute] : attributes) {
    AI_CUDA_RETURN_IF_ERROR(api, device_get_attribute, value, attribute, device);
  }
  AI_CUDA_RETURN_IF_ERROR(api, runtime_get_version, &info.runtime_version);
  AI_CUDA_RETURN_IF_ERROR(api, driver_get_version, &info.driver_version);
  return info;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

}  // namespace ai::cuda
