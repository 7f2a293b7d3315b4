#include "patterns.hpp"

namespace {

using gpu::DeviceView;
using gpu::Findings;
using gpu::Pattern;

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 16;

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t index_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__device__ double value_of(const Pattern& pattern, std::int64_t row, std::int64_t col,
                           std::int64_t cols) {
  const double value = pattern.constant +
                       pattern.per_row * static_cast<double>(row % pattern.row_period) +
                       pattern.per_col * static_cast<double>(col % pattern.col_period);
  return pattern.alternates && (row * cols + col) % 2 != 0 ? -value : value;
}

__global__ void fill(DeviceView view, Pattern pattern, std::int64_t first_col, std::int64_t cols) {
  for (std::int64_t i = first_index(); i < view.rows * cols; i += index_step()) {
    const std::int64_t row = i / cols;
    const std::int64_t col = first_col + i % cols;
    view.data[row * view.ld + col] = static_cast<float>(value_of(pattern, row, col, view.cols));
  }
}

__global__ void check(DeviceView view, Pattern pattern, double tolerance, Findings* findings) {
  const std::int64_t inside = view.rows * view.ld;
  for (std::int64_t i = first_index() - view.guard; i < inside + view.guard; i += index_step()) {
    const float value = view.data[i];
    const std::int64_t col = i % view.ld;
    if (i < 0 || i >= inside || col >= view.cols) {
      if (__float_as_uint(value) != 0xffffffffU) atomicAdd(&findings->touched, 1ULL);
      continue;
    }
    const std::int64_t row = i / view.ld;
    const double wanted = value_of(pattern, row, col, view.cols);
    if (fabs(static_cast<double>(value) - wanted) <= tolerance) continue;  // never for NaN
    atomicAdd(&findings->wrong, 1ULL);
    atomicMin(&findings->first, static_cast<unsigned long long>(row * view.cols + col));
  }
}

__device__ unsigned long long mixed(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__global__ void hash(const float* data, std::int64_t count, unsigned long long* result) {
  unsigned long long sum = 0;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const unsigned long long bits = __float_as_uint(data[i]);
    sum += mixed(mixed(static_cast<unsigned long long>(i) + 1) ^ bits);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, static_cast<unsigned>(distance));
  }
  if (threadIdx.x % 32 == 0) atomicAdd(result, sum);
}

/// Enough blocks for `count` elements, no more than keep the GPU busy.
int blocks_for(std::int64_t count) {
  const std::int64_t wanted = (count + kThreads - 1) / kThreads;
  return wanted < 1 ? 1 : wanted < kBlocks ? static_cast<int>(wanted) : kBlocks;
}

}  // namespace

namespace gpu {

cudaError_t fill_pattern(const DeviceView& view, const Pattern& pattern, std::int64_t first_col,
                         std::int64_t cols, cudaStream_t stream) {
  if (view.rows == 0 || cols == 0) return cudaSuccess;
  fill<<<blocks_for(view.rows * cols), kThreads, 0, stream>>>(view, pattern, first_col, cols);
  return cudaGetLastError();
}

cudaError_t check_pattern(const DeviceView& view, const Pattern& pattern, double tolerance,
                          Findings* findings, cudaStream_t stream) {
  const std::int64_t count = view.rows * view.ld + 2 * view.guard;
  check<<<blocks_for(count), kThreads, 0, stream>>>(view, pattern, tolerance, findings);
  return cudaGetLastError();
}

cudaError_t add_hash(const float* data, std::int64_t count, unsigned long long* result,
                     cudaStream_t stream) {
  hash<<<blocks_for(count), kThreads, 0, stream>>>(data, count, result);
  return cudaGetLastError();
}

}  // namespace gpu
