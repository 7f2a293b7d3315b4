#include "lifecycle_kernels.hpp"

namespace {

__device__ long long now() {
  long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void spin(long long nanoseconds) {
  const long long end = now() + nanoseconds;
  while (now() < end) {
  }
}

__global__ void wait_for(const volatile int* flag, long long limit) {
  const long long end = now() + limit;
  while (*flag == 0 && now() < end) {
  }
}

__global__ void scale(float* data, int count, float factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) data[i] *= factor;
}

__global__ void count_other(const unsigned* words, std::size_t count, unsigned value,
                            unsigned long long* found) {
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    if (words[i] != value) ++mine;
  }
  if (mine != 0) atomicAdd(found, mine);
}

}  // namespace

namespace gpu {

cudaError_t enqueue_spin(long long nanoseconds, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

cudaError_t enqueue_wait_for(const int* flag, long long limit_nanoseconds, cudaStream_t stream) {
  wait_for<<<1, 1, 0, stream>>>(flag, limit_nanoseconds);
  return cudaGetLastError();
}

cudaError_t enqueue_scale(float* data, int count, float factor, cudaStream_t stream) {
  scale<<<(count + 255) / 256, 256, 0, stream>>>(data, count, factor);
  return cudaGetLastError();
}

cudaError_t enqueue_count_other(const unsigned* words, std::size_t count, unsigned value,
                                unsigned long long* found, cudaStream_t stream) {
  count_other<<<1024, 256, 0, stream>>>(words, count, value, found);
  return cudaGetLastError();
}

}  // namespace gpu
