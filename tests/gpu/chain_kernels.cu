#include "chain_kernels.hpp"

namespace {

constexpr int kThreads = 256;
constexpr int kCluster = 16;

__device__ long long now_ns() {
  long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void compare_and_reset(unsigned* now, const unsigned* expected, const unsigned* before,
                                  std::size_t count, unsigned long long* found) {
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    if (now[i] != expected[i]) ++mine;
    now[i] = before[i];
  }
  if (mine != 0) atomicAdd(found, mine);
}

__global__ void __launch_bounds__(kThreads) wave(long long nanoseconds) {
  const long long end = now_ns() + nanoseconds;
  while (now_ns() < end) {
  }
}

__global__ void occupy(const volatile int* flag, int* started, long long limit) {
  if (threadIdx.x == 0) atomicAdd_system(started, 1);
  const long long end = now_ns() + limit;
  while (*flag == 0 && now_ns() < end) {
  }
}

cudaError_t attribute(cudaDeviceAttr which, int& value) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  return error != cudaSuccess ? error : cudaDeviceGetAttribute(&value, which, device);
}

}  // namespace

namespace gpu {

cudaError_t enqueue_compare_and_reset(unsigned* now, const unsigned* expected,
                                      const unsigned* before, std::size_t count,
                                      unsigned long long* found, cudaStream_t stream) {
  const std::size_t wanted = (count + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < 264 ? wanted : 264);
  compare_and_reset<<<blocks, kThreads, 0, stream>>>(now, expected, before, count, found);
  return cudaGetLastError();
}

cudaError_t enqueue_waves(int waves, long long nanoseconds, cudaStream_t stream) {
  int multiprocessors = 0;
  int at_once = 0;
  cudaError_t error = attribute(cudaDevAttrMultiProcessorCount, multiprocessors);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, wave, kThreads, 0);
  if (error != cudaSuccess) return error;
  wave<<<waves * at_once * multiprocessors, kThreads, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

cudaError_t enqueue_occupation(const int* flag, int* started, long long limit_nanoseconds,
                               cudaStream_t stream, Occupation& made) {
  int shared = 0;
  int has_clusters = 0;
  cudaError_t error = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, shared);
  if (error == cudaSuccess) error = attribute(cudaDevAttrClusterLaunch, has_clusters);
  if (error == cudaSuccess) error = attribute(cudaDevAttrMultiProcessorCount, made.multiprocessors);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (error != cudaSuccess) return error;

  cudaLaunchConfig_t config = {};
  config.blockDim = dim3(32);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  cudaLaunchAttribute cluster = {};
  made.blocks = made.multiprocessors - kCluster;
  if (has_clusters != 0) {
    // One cluster fewer than there is room for, so that the next one's multiprocessors stay free.
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = kCluster;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
    config.gridDim = dim3(kCluster);
    int clusters = 0;
    error = cudaFuncSetAttribute(occupy, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveClusters(&clusters, occupy, &config);
    if (error != cudaSuccess) return error;
    made.blocks = (clusters - 1) * kCluster;
  }
  if (made.blocks <= 0) return cudaErrorLaunchOutOfResources;
  config.gridDim = dim3(static_cast<unsigned>(made.blocks));
  return cudaLaunchKernelEx(&config, occupy, static_cast<const volatile int*>(flag), started,
                            limit_nanoseconds);
}

}  // namespace gpu
