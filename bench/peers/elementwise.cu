#include <algorithm>
#include <cstdint>
#include <string>

#include "contestant.hpp"
#include "peers/elementwise.hpp"
#include "timing.hpp"

namespace bench {
namespace {

using ai::ActKind;

constexpr unsigned kFlatThreads = 128;
constexpr int kWantedBlocks = 264;  // two for each multiprocessor of the largest GPUs
constexpr int kMaxSlices = 64;
constexpr int kBatch = 4;  // rows that a thread fetches at once

template <int kWidth>
struct Pack {
  float lane[kWidth];
};
template <>
struct alignas(16) Pack<4> {
  float lane[4];
};

template <int kWidth>
__device__ Pack<kWidth> load(const float* from) {
  return *reinterpret_cast<const Pack<kWidth>*>(from);
}
template <int kWidth>
__device__ void store(float* to, const Pack<kWidth>& values) {
  *reinterpret_cast<Pack<kWidth>*>(to) = values;
}

template <ActKind kAct, Source kSource>
__device__ float slope(float saved) {
  if constexpr (kSource == Source::Z) {
    return ai::activation::derivative<kAct>(saved, 0.0F);
  } else if constexpr (kAct == ActKind::Tanh) {
    return 1.0F - saved * saved;
  } else if constexpr (kAct == ActKind::ELU) {
    return saved > 0.0F ? 1.0F : 1.0F + saved;
  } else {
    static_assert(kAct == ActKind::ReLU);
    return ai::activation::derivative<kAct>(saved, 0.0F);
  }
}

template <ActKind kAct>
struct Activation {
  const float* z;
  float* y;
  template <int kWidth>
  __device__ void at(std::size_t i) const {
    Pack<kWidth> values = load<kWidth>(z + i);
    for (float& value : values.lane) value = ai::activation::apply<kAct>(value, 0.0F);
    store<kWidth>(y + i, values);
  }
};

template <ActKind kAct, Source kSource>
struct Gradient {
  const float* saved;
  const float* gy;
  float* gz;
  template <int kWidth>
  struct Operands {
    Pack<kWidth> saved, gy;
  };
  template <int kWidth>
  __device__ Operands<kWidth> fetch(std::size_t i) const {
    return {load<kWidth>(saved + i), load<kWidth>(gy + i)};
  }
  template <int kWidth>
  __device__ Pack<kWidth> finish(std::size_t i, const Operands<kWidth>& operands) const {
    Pack<kWidth> values = operands.gy;
    for (int j = 0; j < kWidth; ++j) values.lane[j] *= slope<kAct, kSource>(operands.saved.lane[j]);
    store<kWidth>(gz + i, values);
    return values;
  }
  template <int kWidth>
  __device__ void at(std::size_t i) const {
    finish<kWidth>(i, fetch<kWidth>(i));
  }
};

struct Identity {
  const float* gz;
  template <int kWidth>
  using Operands = Pack<kWidth>;
  template <int kWidth>
  __device__ Pack<kWidth> fetch(std::size_t i) const {
    return load<kWidth>(gz + i);
  }
  template <int kWidth>
  __device__ Pack<kWidth> finish(std::size_t, const Pack<kWidth>& values) const {
    return values;
  }
};

template <typename Work>
__global__ void flat_kernel(Work work, std::size_t count) {
  const std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  if (i + 4 <= count) {
    work.template at<4>(i);
  } else {
    for (std::size_t j = i; j < count; ++j) work.template at<1>(j);
  }
}

// The sum over threadIdx.y, in the threads with threadIdx.y == 0. blockDim.y is a power of two.
template <int kWidth>
__device__ Pack<kWidth> sum_over_y(Pack<kWidth> own, Pack<kWidth>* shared) {
  const unsigned here = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y >= half && threadIdx.y < 2 * half) shared[here] = own;
    __syncthreads();
    if (threadIdx.y < half) {
      const Pack<kWidth> other = shared[here + half * blockDim.x];
      for (int j = 0; j < kWidth; ++j) own.lane[j] += other.lane[j];
    }
    __syncthreads();
  }
  return own;
}

template <typename Work, int kWidth>
__global__ void column_sum_kernel(Work work, float* gb, int rows, int cols, int rows_per_slice,
                                  float* partial, unsigned* tickets) {
  extern __shared__ float4 shared_memory[];
  auto* shared = reinterpret_cast<Pack<kWidth>*>(shared_memory);
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * kWidth;
  const bool inside = column < cols;
  const auto step = static_cast<int>(blockDim.y);
  const auto slice = static_cast<int>(blockIdx.y);
  const auto slices = static_cast<int>(gridDim.y);
  const int end = min(rows, (slice + 1) * rows_per_slice);
  const auto index = [&](int row) {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
           static_cast<std::size_t>(column);
  };

  Pack<kWidth> sum = {};
  if (inside) {
    int row = slice * rows_per_slice + static_cast<int>(threadIdx.y);
    for (; row < end; row += kBatch * step) {
      // Fetched together by hand: as gz may be gy, the compiler moves no load ahead of a store.
      typename Work::template Operands<kWidth> operands[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (row + i * step < end) {
          operands[i] = work.template fetch<kWidth>(index(row + i * step));
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (row + i * step >= end) break;
        const Pack<kWidth> values =
            work.template finish<kWidth>(index(row + i * step), operands[i]);
        for (int j = 0; j < kWidth; ++j) sum.lane[j] += values.lane[j];
      }
    }
  }
  sum = sum_over_y<kWidth>(sum, shared);
  if (slices == 1) {
    if (inside && threadIdx.y == 0) store<kWidth>(gb + column, sum);
    return;
  }

  if (inside && threadIdx.y == 0) store<kWidth>(partial + index(slice), sum);
  __threadfence();
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    const auto last = static_cast<unsigned>(slices - 1);
    is_last = atomicInc(tickets + blockIdx.x, last) == last;  // wraps to 0 for the next launch
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  sum = {};
  if (inside) {
    for (int i = static_cast<int>(threadIdx.y); i < slices; i += step) {
      const Pack<kWidth> values = load<kWidth>(partial + index(i));
      for (int j = 0; j < kWidth; ++j) sum.lane[j] += values.lane[j];
    }
  }
  sum = sum_over_y<kWidth>(sum, shared);
  if (inside && threadIdx.y == 0) store<kWidth>(gb + column, sum);
}

[[noreturn]] void no_kernel(ActKind act, const char* what) {
  throw Absent(std::string("the cuBLASLt peers have no kernel for ") + what + " of " +
               ai::to_string(act));
}

template <typename F>
void with_activation(ActKind act, F&& f) {
  switch (act) {
    case ActKind::ReLU: return f.template operator()<ActKind::ReLU>();
    case ActKind::ELU: return f.template operator()<ActKind::ELU>();
    case ActKind::GELUTanh: return f.template operator()<ActKind::GELUTanh>();
    case ActKind::Tanh: return f.template operator()<ActKind::Tanh>();
    default: no_kernel(act, "the values");
  }
}

template <typename F>
void with_gradient(ActKind act, Source source, const Matrix& saved, const Matrix& gy,
                   const Matrix& gz, F&& f) {
  with_activation(act, [&]<ActKind kAct>() {
    if (source == Source::Z) {
      f(Gradient<kAct, Source::Z>{saved.data, gy.data, gz.data});
    } else if constexpr (kAct == ActKind::GELUTanh) {
      no_kernel(act, "the gradient from Y");
    } else {
      f(Gradient<kAct, Source::Y>{saved.data, gy.data, gz.data});
    }
  });
}

template <typename Work>
void launch_flat(const Work& work, std::size_t count, cudaStream_t stream) {
  const std::size_t threads = (count + 3) / 4;
  const auto blocks = static_cast<unsigned>((threads + kFlatThreads - 1) / kFlatThreads);
  flat_kernel<<<blocks, kFlatThreads, 0, stream>>>(work, count);
  check(cudaGetLastError(), "launch of an elementwise kernel");
}

constexpr int div_up(int a, int b) {
  return (a + b - 1) / b;
}

// `columns` that a block takes; many rows leave it few, still 128 bytes of each row.
dim3 block_for(int rows, int columns_of_threads) {
  unsigned y = 1;
  while (y < 32 && static_cast<int>(y) < rows) y *= 2;
  unsigned x = y == 32 ? 8 : 32;
  while (x > 1 && static_cast<int>(x / 2) >= columns_of_threads) x /= 2;
  return {x, y};
}

}  // namespace

void enqueue_activation(ActKind act, const Matrix& z, const Matrix& y, cudaStream_t stream) {
  with_activation(act, [&]<ActKind kAct>() {
    launch_flat(Activation<kAct>{z.data, y.data}, y.count(), stream);
  });
}

void enqueue_activation_gradient(ActKind act, Source source, const Matrix& saved, const Matrix& gy,
                                 const Matrix& gz, cudaStream_t stream) {
  with_gradient(act, source, saved, gy, gz,
                [&](const auto& work) { launch_flat(work, gz.count(), stream); });
}

ColumnSum::ColumnSum(int rows, int cols) : rows_(rows), cols_(cols), width_(cols % 4 == 0 ? 4 : 1) {
  const int columns_of_threads = cols / width_;
  block_ = block_for(rows, columns_of_threads);
  const int tiles = div_up(columns_of_threads, static_cast<int>(block_.x));
  const auto step = static_cast<int>(block_.y);
  const int wanted =
      std::min({kMaxSlices, div_up(kWantedBlocks, tiles), div_up(rows, kBatch * step)});
  rows_per_slice_ = div_up(div_up(rows, wanted), step) * step;
  const int slices = div_up(rows, rows_per_slice_);
  grid_ = {static_cast<unsigned>(tiles), static_cast<unsigned>(slices)};
  if (slices > 1) {
    partial_ = DeviceBuffer(static_cast<std::size_t>(slices) * static_cast<std::size_t>(cols) *
                            sizeof(float));
    tickets_ = DeviceBuffer(static_cast<std::size_t>(tiles) * sizeof(unsigned));
  }
}

void ColumnSum::enqueue(const Matrix& gz, const Matrix& gb, cudaStream_t stream) const {
  launch(Identity{gz.data}, gb, stream);
}

void ColumnSum::enqueue_with_gradient(ActKind act, Source source, const Matrix& saved,
                                      const Matrix& gy, const Matrix& gz, const Matrix& gb,
                                      cudaStream_t stream) const {
  with_gradient(act, source, saved, gy, gz, [&](const auto& work) { launch(work, gb, stream); });
}

template <typename Work>
void ColumnSum::launch(const Work& work, const Matrix& gb, cudaStream_t stream) const {
  const std::size_t shared =
      std::size_t{block_.x} * block_.y * static_cast<std::size_t>(width_) * sizeof(float);
  const auto kernel = width_ == 4 ? column_sum_kernel<Work, 4> : column_sum_kernel<Work, 1>;
  kernel<<<grid_, block_, shared, stream>>>(work, gb.data, rows_, cols_, rows_per_slice_,
                                            partial_.as<float>(), tickets_.as<unsigned>());
  check(cudaGetLastError(), "launch of a column sum");
}

}  // namespace bench
