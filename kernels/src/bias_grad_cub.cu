#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cuda/std/functional>

#include "bias_grad.cuh"

namespace ai::kernels {
namespace {

struct StridedElement {
  const float* data;
  std::int64_t stride;
  __host__ __device__ double operator()(std::int64_t i) const {
    return static_cast<double>(data[i * stride]);
  }
};

struct Widen {
  __host__ __device__ double operator()(float value) const { return static_cast<double>(value); }
};

// Segment r of gY's memory is [r * ld, r * ld + cols): padding lies between segments.
struct SegmentOffset {
  std::int64_t ld;
  std::int64_t shift;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * ld + shift; }
};

struct StoreBias {
  BiasTarget target;
  __host__ __device__ void operator()(std::int64_t index, double sum) const {
    store_bias(target, index, sum);
  }
};

}  // namespace

cudaError_t cub_reduce(void* temporary, std::size_t& bytes, const float* gy, std::int64_t count,
                       std::int64_t stride, const BiasTarget& target, Stream stream) noexcept {
  const auto in = thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                  StridedElement{gy, stride});
  const auto out = thrust::make_tabulate_output_iterator(StoreBias{target});
  return cub::DeviceReduce::Reduce(temporary, bytes, in, out, count, ::cuda::std::plus<>{}, 0.0,
                                   stream);
}

cudaError_t cub_segmented_reduce(void* temporary, std::size_t& bytes, const MatrixView& gy,
                                 const BiasTarget& target, Stream stream) noexcept {
  const auto in = thrust::make_transform_iterator(static_cast<const float*>(gy.data), Widen{});
  const auto out = thrust::make_tabulate_output_iterator(StoreBias{target});
  const thrust::counting_iterator<std::int64_t> row(0);
  return cub::DeviceSegmentedReduce::Reduce(
      temporary, bytes, in, out, gy.rows,
      thrust::make_transform_iterator(row, SegmentOffset{gy.ld, 0}),
      thrust::make_transform_iterator(row, SegmentOffset{gy.ld, gy.cols}), ::cuda::std::plus<>{},
      0.0, stream);
}

}  // namespace ai::kernels
