// The kernels that every contestant in C++ shares, and those that fill a network.
#include <algorithm>
#include <string>

#include "data.hpp"
#include "errors.hpp"
#include "network.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 4 * kThreads;  // four neighbouring elements a thread
constexpr int kMaxSegments = 64;

int tiles_of(std::size_t count) {
  return static_cast<int>((count + kTile - 1) / kTile);
}

__global__ void fill(float* values, std::uint32_t count, std::uint32_t tensor, float scale) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    values[i] = unit_value(tensor, static_cast<std::uint32_t>(i)) * scale;
  }
}

__global__ void poison(float* values, std::uint32_t count) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    values[i] = __uint_as_float(kPoisonBits);
  }
}

__global__ void loss_gradient(const float* __restrict__ y, const float* __restrict__ target,
                              float* __restrict__ gy, std::uint32_t count, float scale) {
  const std::uint32_t first = blockIdx.x * kTile + 4 * threadIdx.x;
  if (first + 4 <= count) {
    const float4 a = *reinterpret_cast<const float4*>(y + first);
    const float4 b = *reinterpret_cast<const float4*>(target + first);
    *reinterpret_cast<float4*>(gy + first) = make_float4(scale * (a.x - b.x), scale * (a.y - b.y),
                                                         scale * (a.z - b.z), scale * (a.w - b.w));
  } else {
    for (std::uint32_t i = first; i < count; ++i) gy[i] = scale * (y[i] - target[i]);
  }
}

struct Segment {
  float* values;
  const float* gradient;
  std::uint32_t count;
  std::uint32_t first_tile;
};
struct Segments {
  Segment of[kMaxSegments];
  int count;
};

// A block serves one tile of one segment; tiles are numbered through all segments.
__global__ void sgd(const Segments segments, float rate) {
  int s = 0;
  while (s + 1 < segments.count && segments.of[s + 1].first_tile <= blockIdx.x) ++s;
  const Segment& segment = segments.of[s];
  const std::uint32_t first = (blockIdx.x - segment.first_tile) * kTile + 4 * threadIdx.x;
  float* w = segment.values;
  const float* g = segment.gradient;
  if (first + 4 <= segment.count) {
    float4 value = *reinterpret_cast<const float4*>(w + first);
    const float4 gradient = *reinterpret_cast<const float4*>(g + first);
    value.x -= rate * gradient.x;
    value.y -= rate * gradient.y;
    value.z -= rate * gradient.z;
    value.w -= rate * gradient.w;
    *reinterpret_cast<float4*>(w + first) = value;
  } else {
    for (std::uint32_t i = first; i < segment.count; ++i) w[i] -= rate * g[i];
  }
}

}  // namespace

void enqueue_fill(const Matrix& matrix, std::uint32_t tensor, float scale, cudaStream_t stream) {
  const int blocks = std::min(tiles_of(matrix.count()), 4096);
  fill<<<blocks, kThreads, 0, stream>>>(matrix.data, static_cast<std::uint32_t>(matrix.count()),
                                        tensor, scale);
  check(cudaGetLastError(), "launch of fill");
}

void enqueue_poison(const Matrix& matrix, cudaStream_t stream) {
  const int blocks = std::min(tiles_of(matrix.count()), 4096);
  poison<<<blocks, kThreads, 0, stream>>>(matrix.data, static_cast<std::uint32_t>(matrix.count()));
  check(cudaGetLastError(), "launch of poison");
}

void enqueue_loss_gradient(const Matrix& y, const Matrix& target, const Matrix& gy,
                           cudaStream_t stream) {
  const auto count = static_cast<std::uint32_t>(y.count());
  loss_gradient<<<tiles_of(count), kThreads, 0, stream>>>(y.data, target.data, gy.data, count,
                                                          2.0F / static_cast<float>(count));
  check(cudaGetLastError(), "launch of loss_gradient");
}

void enqueue_sgd(const std::vector<Network::Layer>& layers, cudaStream_t stream) {
  if (2 * layers.size() > kMaxSegments) {
    throw Failed("the SGD kernel takes at most " + std::to_string(kMaxSegments / 2) +
                 " layers, there are " + std::to_string(layers.size()));
  }
  Segments segments = {};
  std::uint32_t tiles = 0;
  const auto add = [&](const Matrix& values, const Matrix& gradient) {
    segments.of[segments.count++] = {values.data, gradient.data,
                                     static_cast<std::uint32_t>(values.count()), tiles};
    tiles += static_cast<std::uint32_t>(tiles_of(values.count()));
  };
  for (const Network::Layer& layer : layers) {
    add(layer.w, layer.gw);
    add(layer.b, layer.gb);
  }
  sgd<<<tiles, kThreads, 0, stream>>>(segments, kLearningRate);
  check(cudaGetLastError(), "launch of sgd");
}

}  // namespace bench
