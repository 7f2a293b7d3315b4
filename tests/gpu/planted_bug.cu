// Not a test of the library: programs that are wrong on purpose, one for each tool of
// compute-sanitizer. A tool whose clean report is to mean anything must find its own first.
//   planted_bug memcheck|racecheck|synccheck|initcheck|cluster_race
// exit code: 0 it ran, 77 no GPU or none with clusters, 2 usage
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

// Where the library's kernels are, so that a filter by name which finds these finds those.
namespace ai::kernels {
namespace {

constexpr int kThreads = 64;  // two warps

/// Writes one element past the end of a buffer of `count`.
__global__ void write_past_end(float* data, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i <= count) data[i] = 1.0F;
}

/// Each warp reads what the other one writes, and no barrier is in between.
__global__ void race(float* out) {
  __shared__ float values[kThreads];
  const unsigned i = threadIdx.x;
  values[i] = static_cast<float>(i);
  out[i] = values[(i + kThreads / 2) % kThreads];
}

/// Each of two blocks of a cluster reads its shared memory, to which the other one writes, and no
/// barrier of the cluster is in between. Nothing else is wrong: both have begun, neither has ended.
__global__ void cluster_race(float* out) {
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  __shared__ float values[kThreads];
  const cg::cluster_group cluster = cg::this_cluster();
  const unsigned i = threadIdx.x;
  values[i] = 0.0F;
  cluster.sync();
  cluster.map_shared_rank(values, cluster.block_rank() ^ 1U)[i] = static_cast<float>(blockIdx.x);
  out[blockIdx.x * kThreads + i] = values[i];
  cluster.sync();
#else
  out[0] = 0.0F;
#endif
}

/// Every other thread does not come to the barrier, and does not end before it either.
__global__ void diverge(float* out) {
  __shared__ float values[kThreads];
  const unsigned i = threadIdx.x;
  values[i] = static_cast<float>(i);
  if (i % 2 == 0) __syncthreads();
  out[i] = values[kThreads - 1 - i];
}

/// Copies what nobody has written.
__global__ void read_unwritten(const float* unwritten, float* out) {
  out[threadIdx.x] = unwritten[threadIdx.x];
}

cudaError_t launch_cluster_race(float* out) {
  int device = 0;
  int has_clusters = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, device);
  if (error != cudaSuccess) return error;
  if (has_clusters == 0) return cudaErrorNotSupported;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 2;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(kThreads);
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, cluster_race, out);
}

cudaError_t run(const char* bug) {
  constexpr int kCount = 50;  // of the buffer that is left; 256 bytes hold 64
  float* out = nullptr;
  float* unwritten = nullptr;
  cudaError_t error = cudaMalloc(&out, 2 * kThreads * sizeof(float));
  if (error == cudaSuccess) error = cudaMalloc(&unwritten, kCount * sizeof(float));
  if (error != cudaSuccess) return error;
  if (std::strcmp(bug, "memcheck") == 0) {
    write_past_end<<<1, kThreads>>>(unwritten, kCount);
  } else if (std::strcmp(bug, "racecheck") == 0) {
    race<<<1, kThreads>>>(out);
  } else if (std::strcmp(bug, "synccheck") == 0) {
    diverge<<<1, kThreads>>>(out);
  } else if (std::strcmp(bug, "cluster_race") == 0) {
    error = launch_cluster_race(out);
    if (error != cudaSuccess) return error;
  } else {
    read_unwritten<<<1, kCount>>>(unwritten, out);
  }
  // A tool that stops the kernel makes these fail: the error that it reports is the result.
  (void)cudaDeviceSynchronize();
  (void)cudaFree(unwritten);
  (void)cudaFree(out);
  return cudaSuccess;
}

}  // namespace
}  // namespace ai::kernels

int main(int argc, char** argv) {
  const char* const bug = argc == 2 ? argv[1] : "";
  bool known = false;
  for (const char* name : {"memcheck", "racecheck", "synccheck", "initcheck", "cluster_race"}) {
    known = known || std::strcmp(bug, name) == 0;
  }
  if (!known) {
    std::fprintf(stderr,
                 "usage: planted_bug memcheck|racecheck|synccheck|initcheck|cluster_race\n");
    return 2;
  }
  if (ai::kernels::run(bug) != cudaSuccess) {
    std::puts("skipped: no usable GPU");
    return 77;
  }
  std::printf("ran the bug for %s\n", bug);
}
