#include "cuda/driver_nodes.hpp"

#include "cuda/driver_streams.hpp"

namespace ai::cuda {

DriverNodes driver_nodes(const Api& api) noexcept {
  DriverNodes driver;
  driver.get_params = reinterpret_cast<decltype(driver.get_params)>(
      driver_function(api, "cuGraphKernelNodeGetParams"));
  if (driver.get_params == nullptr) return {};
  driver.set_params = reinterpret_cast<decltype(driver.set_params)>(
      driver_function(api, "cuGraphKernelNodeSetParams"));
  driver.exec_set_params = reinterpret_cast<decltype(driver.exec_set_params)>(
      driver_function(api, "cuGraphExecKernelNodeSetParams"));
  return driver;
}

}  // namespace ai::cuda
