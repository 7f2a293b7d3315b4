// Not a test of the library: a program that is wrong on purpose. A sanitizer whose clean report is
// to mean anything must find this first.
#include <cuda_runtime.h>

#include <cstdio>

namespace {

// Writes one element past the end of a buffer of `count`.
__global__ void write_past_end(float* data, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i <= count) data[i] = 1.0F;
}

}  // namespace

int main() {
  constexpr int kCount = 100;
  float* data = nullptr;
  if (cudaMalloc(&data, kCount * sizeof(float)) != cudaSuccess) {
    std::puts("skipped: no usable GPU");
    return 77;
  }
  write_past_end<<<1, 128>>>(data, kCount);
  (void)cudaDeviceSynchronize();
  (void)cudaFree(data);
  std::puts("wrote past the end of a buffer");
}
