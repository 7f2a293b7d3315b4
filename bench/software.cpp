#include "software.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>

#include "cuda/device_info.hpp"
#include "cuda/lt_api.hpp"
#include "errors.hpp"
#include "timing.hpp"

namespace bench {
namespace {

// The few functions of NVML that are needed, declared here: its header is not part of every
// toolkit, and its library belongs to the driver.
class Nvml {
 public:
  static const Nvml& get() {
    static const Nvml nvml;
    return nvml;
  }

  [[nodiscard]] std::string driver_version() const {
    char text[96] = {};
    if (system_get_driver_version_ == nullptr ||
        system_get_driver_version_(text, sizeof text) != 0) {
      return "";
    }
    return text;
  }
  [[nodiscard]] std::optional<unsigned> sm_clock(const char* pci_bus_id) const {
    constexpr int kSmClock = 1;
    void* device = nullptr;
    unsigned mhz = 0;
    if (get_handle_ == nullptr || get_clock_ == nullptr || get_handle_(pci_bus_id, &device) != 0 ||
        get_clock_(device, kSmClock, &mhz) != 0) {
      return std::nullopt;
    }
    return mhz;
  }

 private:
  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    int (*init)() = nullptr;
    find(library, "nvmlInit_v2", init);
    if (init == nullptr || init() != 0) return;
    find(library, "nvmlSystemGetDriverVersion", system_get_driver_version_);
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", get_handle_);
    find(library, "nvmlDeviceGetClockInfo", get_clock_);
  }
  template <typename Function>
  static void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
  }

  int (*system_get_driver_version_)(char*, unsigned) = nullptr;
  int (*get_handle_)(const char*, void**) = nullptr;
  int (*get_clock_)(void*, int, unsigned*) = nullptr;
};

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

std::string id_of(int device) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::string id = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    char digits[3];
    (void)std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    id += digits;
  }
  return id;
}

}  // namespace

Software software() {
  const auto info = ai::cuda::device_info(ai::cuda::runtime_api(), current_device());
  if (!info.ok()) throw Failed("the device's properties: " + info.status().to_string());
  Software found;
  found.gpu = info->name;
  found.gpu_id = id_of(current_device());
  found.driver = Nvml::get().driver_version();
  found.driver_cuda = info->driver_version;
  found.cuda = ai::cuda::version_text(info->runtime_version);
  found.l2_bytes = info->l2_bytes;
  found.sm_count = info->sm_count;
  if (const auto lt = ai::cuda::lt_api(); lt.ok()) {
    const std::size_t version = (*lt)->get_version();
    found.cublaslt = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                     "." + std::to_string(version % 100);
  }
  return found;
}

std::optional<unsigned> sm_clock_mhz() {
  char bus_id[32] = {};
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, current_device()) != cudaSuccess) {
    (void)cudaGetLastError();
    return std::nullopt;
  }
  return Nvml::get().sm_clock(bus_id);
}

}  // namespace bench
