#include "kernels/launch.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "core/text.hpp"
#include "cuda/error.hpp"

namespace ai::kernels {
namespace {

constexpr int kPortableCluster = 8;  // blocks that a cluster may have on any device with clusters

using Attributes = std::array<cudaLaunchAttribute, 2>;

/// `attributes` is where the configuration points to.
cudaLaunchConfig_t config_of(const LaunchShape& shape, Attributes& attributes) noexcept {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.blocks_y));
  config.blockDim =
      dim3(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.threads_y));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.attrs = attributes.data();
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  if (shape.cooperative) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  }
  return config;
}

/// `what`: "a cluster of 8 blocks".
Status no_room(const LaunchShape& shape, const char* what, std::int64_t count) noexcept try {
  return {StatusCode::Unsupported,
          text(what, count, " blocks, each with ", shape.threads, " threads and ",
               static_cast<std::int64_t>(shape.shared_bytes),
               " bytes of shared memory, finds no room on this device")};
} catch (const std::bad_alloc&) {
  return {StatusCode::Unsupported, {}};
}

Status check_clusters(const cuda::Api& api, const void* kernel, const LaunchShape& shape) noexcept {
  if (shape.cluster > kPortableCluster) {
    AI_RETURN_IF_ERROR(cuda::to_status(
        api, api.func_set_attribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "cudaFuncSetAttribute (cluster size)"));
  }
  Attributes attributes = {};
  const cudaLaunchConfig_t config = config_of(shape, attributes);
  int clusters = 0;
  AI_RETURN_IF_ERROR(cuda::to_status(api,
                                     api.occupancy_max_active_clusters(&clusters, kernel, &config),
                                     "cudaOccupancyMaxActiveClusters"));
  return clusters > 0 ? Status() : no_room(shape, "a cluster of ", shape.cluster);
}

/// Whether all blocks can run at once.
Status check_all_at_once(const cuda::Api& api, const void* kernel,
                         const LaunchShape& shape) noexcept {
  int device = 0;
  int multiprocessors = 0;
  int is_possible = 0;
  int at_once = 0;
  AI_CUDA_RETURN_IF_ERROR(api, get_device, &device);
  AI_CUDA_RETURN_IF_ERROR(api, device_get_attribute, &is_possible, cudaDevAttrCooperativeLaunch,
                          device);
  AI_CUDA_RETURN_IF_ERROR(api, device_get_attribute, &multiprocessors,
                          cudaDevAttrMultiProcessorCount, device);
  AI_RETURN_IF_ERROR(
      cuda::to_status(api,
                      api.occupancy_max_active_blocks(
                          &at_once, kernel, shape.threads * shape.threads_y, shape.shared_bytes),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  const std::int64_t blocks = shape.blocks * shape.blocks_y;
  const bool has_room = is_possible != 0 && std::int64_t{at_once} * multiprocessors >= blocks;
  return has_room ? Status() : no_room(shape, "a cooperative launch of ", blocks);
}

}  // namespace

Status launch(const cuda::Api& api, const void* kernel, const LaunchShape& shape, Stream stream,
              void** arguments) noexcept {
  if (shape.blocks <= 0 || shape.blocks_y <= 0) return {};
  Attributes attributes = {};
  cudaLaunchConfig_t config = config_of(shape, attributes);
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
  if (shape.cluster > 1) AI_RETURN_IF_ERROR(check_clusters(api, kernel, shape));
  return shape.cooperative ? check_all_at_once(api, kernel, shape) : Status();
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
