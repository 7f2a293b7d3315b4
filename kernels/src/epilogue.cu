#include <cuda_runtime_api.h>

#include "epilogue_small.hpp"

namespace ai::kernels {
namespace {

static_assert(__cplusplus >= 202002L, "device code needs C++20");

template <int kWidth>
struct Pack {
  float value[kWidth];
};

template <int kWidth>
__device__ Pack<kWidth> read(const MatrixView& view, std::int64_t row, std::int64_t unit) {
  const float* at = view.data + row * view.ld + unit * kWidth;
  if constexpr (kWidth == 4) {
    const float4 v = *reinterpret_cast<const float4*>(at);
    return {{v.x, v.y, v.z, v.w}};
  } else {
    return {{*at}};
  }
}

template <int kWidth>
__device__ void write(const MatrixView& view, std::int64_t row, std::int64_t unit,
                      const Pack<kWidth>& pack) {
  float* at = view.data + row * view.ld + unit * kWidth;
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(at) =
        make_float4(pack.value[0], pack.value[1], pack.value[2], pack.value[3]);
  } else {
    *at = pack.value[0];
  }
}

template <ActKind kAct, int kWidth>
__global__ void __launch_bounds__(256) epilogue(const __grid_constant__ EpilogueArguments args) {
  const Epilogue& call = args.call;
  const std::uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
  // A grid has fewer than 2^32 threads, so a row that long is not left by the first step.
  std::int64_t row = 0;
  std::int64_t unit = index;
  if (args.cols <= index) {
    const auto cols = static_cast<std::uint32_t>(args.cols);
    row = index / cols;
    unit = index % cols;
  }
  while (row < call.y.rows) {
    Pack<kWidth> z = {};
    if (call.raw.data != nullptr) z = read<kWidth>(call.raw, row, unit);
    if (call.c.data != nullptr) {
      const Pack<kWidth> c = read<kWidth>(call.c, row, unit);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) z.value[i] = fmaf(call.beta, c.value[i], z.value[i]);
    }
    if (call.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        z.value[i] += call.bias[row * call.bias_row + (unit * kWidth + i) * call.bias_col];
      }
    }
    if (call.z.data != nullptr) write(call.z, row, unit, z);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      z.value[i] = activation::apply<kAct>(z.value[i], call.slope);
    }
    write(call.y, row, unit, z);

    row += args.step_rows;
    unit += args.step_cols;
    if (unit >= args.cols) {
      unit -= args.cols;
      ++row;
    }
  }
}

template <ActKind kAct, bool kWithZ>
__global__ void __launch_bounds__(256) small_epilogue(const __grid_constant__ SmallEpilogue call) {
  const std::uint32_t col = blockIdx.x * blockDim.x + threadIdx.x;
  const std::uint32_t row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col < call.cols && row < call.rows) small_epilogue_element<kAct, kWithZ>(call, row, col);
}

}  // namespace

const void* epilogue_kernel(ActKind act, int width) noexcept {
  return activation::dispatch(act, [width]<ActKind kAct>() {
    return width == 4 ? reinterpret_cast<const void*>(&epilogue<kAct, 4>)
                      : reinterpret_cast<const void*>(&epilogue<kAct, 1>);
  });
}

const void* small_epilogue_kernel(ActKind act, bool with_z) noexcept {
  return activation::dispatch(act, [with_z]<ActKind kAct>() {
    return with_z ? reinterpret_cast<const void*>(&small_epilogue<kAct, true>)
                  : reinterpret_cast<const void*>(&small_epilogue<kAct, false>);
  });
}

}  // namespace ai::kernels
