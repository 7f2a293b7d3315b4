#include "kernels/launch.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "core/text.hpp"
#include "cuda/error.hpp"

namespace ai::kernels {
namespace {

constexpr int kPortableCluster = 8;  // blocks that a cluster may have on any device with clusters

/// `attribute` is where the configuration points to.
cudaLaunchConfig_t config_of(const LaunchShape& shape, cudaLaunchAttribute& attribute) noexcept {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y));
  config.blockDim =
      dim3(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.threads_y));
  config.dynamicSmemBytes = shape.shared_bytes;
  if (shape.cluster > 1) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  return config;
}

Status no_room(const LaunchShape& shape) noexcept try {
  return {StatusCode::Unsupported,
          text("a cluster of ", shape.cluster, " blocks, each with ", shape.threads,
               " threads and ", static_cast<std::int64_t>(shape.shared_bytes),
               " bytes of shared memory, finds no room on this device")};
} catch (const std::bad_alloc&) {
  return {StatusCode::Unsupported, {}};
}

}  // namespace

Status launch(const cuda::Api& api, const void* kernel, const LaunchShape& shape, Stream stream,
              void** arguments) noexcept {
  if (shape.blocks <= 0 || shape.blocks_y <= 0) return {};
  cudaLaunchAttribute attribute = {};
  cudaLaunchConfig_t config = config_of(shape, attribute);
  config.stream = stream;
  return cuda::to_status(api, api.launch_kernel_ex(&config, kernel, arguments),
                         "cudaLaunchKernelExC");
}

Status load(const cuda::Api& api, const void* kernel) noexcept {
  cudaFuncAttributes attributes = {};
  return cuda::to_status(api, api.func_get_attributes(&attributes, kernel),
                         "cudaFuncGetAttributes");
}

Status prepare_launch(const cuda::Api& api, const void* kernel, const LaunchShape& shape) noexcept {
  AI_RETURN_IF_ERROR(
      cuda::to_status(api,
                      api.func_set_attribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(shape.shared_bytes)),
                      "cudaFuncSetAttribute (dynamic shared memory)"));
  if (shape.cluster == 1) return {};
  if (shape.cluster > kPortableCluster) {
    AI_RETURN_IF_ERROR(cuda::to_status(
        api, api.func_set_attribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "cudaFuncSetAttribute (cluster size)"));
  }
  cudaLaunchAttribute attribute = {};
  const cudaLaunchConfig_t config = config_of(shape, attribute);
  int clusters = 0;
  AI_RETURN_IF_ERROR(cuda::to_status(api,
                                     api.occupancy_max_active_clusters(&clusters, kernel, &config),
                                     "cudaOccupancyMaxActiveClusters"));
  return clusters > 0 ? Status() : no_room(shape);
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
