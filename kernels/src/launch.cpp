#include "kernels/launch.hpp"

#include "cuda/error.hpp"

namespace ai::kernels {

Status launch(const cuda::Api& api, const void* kernel, const LaunchShape& shape, Stream stream,
              void** arguments) noexcept {
  if (shape.blocks <= 0) return {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  return cuda::to_status(api, api.launch_kernel_ex(&config, kernel, arguments),
                         "cudaLaunchKernelExC");
}

Status load(const cuda::Api& api, const void* kernel) noexcept {
  cudaFuncAttributes attributes = {};
  return cuda::to_status(api, api.func_get_attributes(&attributes, kernel),
                         "cudaFuncGetAttributes");
}

}  // namespace ai::kernels
