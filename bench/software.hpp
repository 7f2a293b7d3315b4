#pragma once

#include <optional>
#include <string>

namespace bench {

/// The GPU that is measured, and what it is driven by.
struct Software {
  std::string gpu;       ///< "NVIDIA H200"
  std::string gpu_id;    ///< "GPU-" and 32 hex digits, which tell one H200 from another
  std::string driver;    ///< "580.159.04"; empty where it cannot be asked
  int driver_cuda = 0;   ///< the newest CUDA version the driver serves, 13000 for 13.0
  std::string cuda;      ///< the runtime's version, "13.0"
  std::string cublaslt;  ///< "13.1.0"; empty without cuBLASLt
  int l2_bytes = 0;
  int sm_count = 0;
};
/// Of the current device; throws Failed.
[[nodiscard]] Software software();

/// The current device's SM clock in MHz at this moment; nullopt where it cannot be asked.
[[nodiscard]] std::optional<unsigned> sm_clock_mhz();

}  // namespace bench
