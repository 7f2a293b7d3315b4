#include "cuda/driver_launch.hpp"

namespace ai::cuda {
namespace {

template <typename Function>
Function find(const Api& api, const char* symbol) noexcept {
  constexpr unsigned kVersion = 12000;  // the functions' form since then
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  if (api.get_driver_entry_point(symbol, &address, kVersion, cudaEnableLegacyStream, &found) !=
      cudaSuccess) {
    (void)api.get_last_error();
    return nullptr;
  }
  if (found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Function>(address);
}

}  // namespace

DriverLaunch driver_launch(const Api& api) noexcept {
  if (api.get_driver_entry_point == nullptr) return {};
  DriverLaunch driver;
  driver.stream_is_capturing =
      find<decltype(driver.stream_is_capturing)>(api, "cuStreamIsCapturing");
  driver.graph_launch = find<decltype(driver.graph_launch)>(api, "cuGraphLaunch");
  if (driver.stream_is_capturing == nullptr || driver.graph_launch == nullptr) return {};
  return driver;
}

}  // namespace ai::cuda
