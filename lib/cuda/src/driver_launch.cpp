#include "cuda/driver_launch.hpp"

#include "cuda/driver_streams.hpp"

namespace ai::cuda {

DriverLaunch driver_launch(const Api& api) noexcept {
  DriverLaunch driver;
  driver.stream_is_capturing = driver_streams(api).is_capturing;
  driver.graph_launch =
      reinterpret_cast<decltype(driver.graph_launch)>(driver_function(api, "cuGraphLaunch"));
  if (driver.stream_is_capturing == nullptr || driver.graph_launch == nullptr) return {};
  return driver;
}

}  // namespace ai::cuda
