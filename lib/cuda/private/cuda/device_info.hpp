#pragma once

#include <cstddef>
#include <string>

#include "ai/status.hpp"
#include "cuda/api.hpp"

namespace ai::cuda {

/// What identifies a GPU and its software, for explain() and for the keys of tuning results.
struct DeviceInfo {
  std::string name;  ///< e.g. "NVIDIA H200"
  int ordinal = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;
  int l2_bytes = 0;
  int shared_bytes_per_block = 0;  ///< the opt-in maximum
  int driver_version = 0;          ///< CUDA version of the driver, e.g. 13000 for 13.0
  int runtime_version = 0;         ///< CUDA version this library was built with
};
[[nodiscard]] Result<DeviceInfo> device_info(const Api& api, int device) noexcept;

/// Whether `device` can be used: Unsupported where there is no driver, no GPU, or a driver of an
/// older CUDA major version than the runtime; DeviceMismatch where `device` is not one of the GPUs.
[[nodiscard]] Status check_device(const Api& api, int device) noexcept;

/// 13020 -> "13.2".
[[nodiscard]] std::string version_text(int cuda_version);

}  // namespace ai::cuda
