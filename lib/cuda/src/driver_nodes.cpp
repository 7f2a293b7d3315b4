#include "cuda/driver_nodes.hpp"

#include "cuda/driver_streams.hpp"

namespace ai::cuda {

DriverNodes driver_nodes(const Api& api) noexcept {
  DriverNodes driver;
  driver.get_params = reinterpret_cast<decltype(driver.get_params)>(
      driver_function(api, "cuGraphKernelNodeGetParams"));
  driver.set_params = reinterpret_cast<decltype(driver.set_params)>(
      driver_function(api, "cuGraphKernelNodeSetParams"));
  if (driver.get_params == nullptr || driver.set_params == nullptr) return {};
  return driver;
}

}  // namespace ai::cuda
