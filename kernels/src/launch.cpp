#include "kernels/launch.hpp"

#include <algorithm>

#include "cuda/error.hpp"

namespace ai::kernels {

Status launch(const cuda::Api& api, const void* kernel, const LaunchShape& shape, Stream stream,
              void** arguments) noexcept {
  if (shape.blocks <= 0 || shape.blocks_y <= 0) return {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y));
  config.blockDim =
      dim3(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.threads_y));
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

LaunchShape element_shape(std::int64_t rows, std::int64_t cols, std::int64_t enough) noexcept {
  constexpr std::int64_t kLeast = 64;
  constexpr std::int64_t kMost = 256;
  const auto shape_of = [=](std::int64_t threads) {
    const std::int64_t across = std::min(cols, threads);
    const std::int64_t down = std::min(rows, threads / across);
    return LaunchShape{blocks_for(cols, across, cols), static_cast<int>(across), 0,
                       blocks_for(rows, down, rows), static_cast<int>(down)};
  };
  std::int64_t threads = kLeast;
  LaunchShape shape = shape_of(threads);
  while (threads < kMost && shape.blocks * shape.blocks_y > enough) {
    threads *= 2;
    shape = shape_of(threads);
  }
  return shape;
}

}  // namespace ai::kernels
