#include "capture/tuning_machine.hpp"

#include <fstream>
#include <sstream>
#include <utility>

#include "cuda/device_info.hpp"

#ifndef GE_VERSION
#error "the build system says which version of the library this is"
#endif

namespace ai::detail {
namespace {

bool is_release(std::string_view word) noexcept {
  return word.find('.') != std::string_view::npos && word.front() != '.' && word.back() != '.' &&
         word.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// The release of the driver's kernel side says more than the version of CUDA that it serves.
std::string driver_text(int cuda_version) {
  std::string line;
  std::ifstream file("/proc/driver/nvidia/version");
  std::getline(file, line);
  const std::string release = driver_release(line);
  const std::string cuda = "CUDA " + cuda::version_text(cuda_version);
  return release.empty() ? cuda : release + ", " + cuda;
}

}  // namespace

std::string driver_release(std::string_view text) {
  std::istringstream words{std::string(text.substr(0, text.find('\n')))};
  for (std::string word; words >> word;) {
    if (is_release(word)) return word;
  }
  return {};
}

Result<TuningMachine> tuning_machine(const cuda::Api& api, int device, Backend& backend) {
  const Result<cuda::DeviceInfo> info = cuda::device_info(api, device);
  AI_RETURN_IF_ERROR(info.status());
  Result<std::string> libraries = backend.libraries();
  AI_RETURN_IF_ERROR(libraries.status());
  TuningMachine machine;
  machine.gpu = info->name;
  machine.sm_count = info->sm_count;
  machine.driver = driver_text(info->driver_version);
  machine.cuda = cuda::version_text(info->runtime_version);
  machine.libraries = std::move(*libraries);
  machine.library = GE_VERSION;
  return machine;
}

}  // namespace ai::detail
