// What a thread of the chain kernel requests, and where a block keeps it; for chain_slab.cuh and
// behind the same specification.
#pragma once

#include "kernels/chain_cluster.cuh"

namespace ai::kernels::chain {

constexpr int kSlab = kShape.slab;
constexpr int kCluster = kShape.cluster;
constexpr int kThreads = kShape.threads;
constexpr int kRun = run_of(kShape);
constexpr Layout kLayout = layout_of(kLayers, kDepth, kShape);

constexpr Layout before(int layer) {
  return layout_of(kLayers, layer, kShape);
}

/// Where the values of a layer's input lie: term k of row r at [k * kSlab + r].
template <int l>
constexpr int kInputsAt = before(l).inputs;

struct Where {
  int rank;    // of the block in its cluster
  int thread;  // in the block
  int row;     // the first of the slab
};

__device__ inline bool exists(const Where& at, int row) {
  return kInput.rows % kSlab == 0 || at.row + row < kInput.rows;
}

/// Of layers from l on. Every barrier expects all of its layer's input; what comes before it
/// expects anything is counted, too.
template <int l>
__device__ __forceinline__ void make_barriers(unsigned barriers) {
  if constexpr (l < kDepth) {
    const unsigned mine = barriers + 8 * l;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(mine) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(mine),
                 "n"(kLayers[l].k * kSlab * 4)
                 : "memory");
    make_barriers<l + 1>(barriers);
  }
}

/// Layers whose weights are requested by the time that layer l begins.
template <int l>
constexpr int kRequested = requested(kLayers, kDepth, kShape, l);

/// Biases of layer l that the block has, and those that a thread fetches for all.
template <int l>
constexpr int kBiases = before(l + 1).biases - before(l).biases;
template <int l>
constexpr int kBiasLoads = (kBiases<l> + kThreads - 1) / kThreads;
template <int l>
constexpr int kBiasLoadsBefore = kBiasLoadsBefore<l - 1> + kBiasLoads<l - 1>;
template <>
constexpr int kBiasLoadsBefore<0> = 0;

/// What a thread has of layer l: columns of the block, `lanes` apart, and of their terms those of a
/// group of threads.
template <int l>
struct Part {
  static constexpr Share share = share_of(kLayers[l], kShape);
  int lane;
  int group;

  __device__ __forceinline__ explicit Part(const Where& at)
      : lane(at.thread % share.lanes), group(at.thread / share.lanes) {}
  /// Its column j in the block.
  __device__ __forceinline__ int own(int j) const { return lane + j * share.lanes; }
  /// The same in the layer, which may have fewer.
  __device__ __forceinline__ int column(const Where& at, int j) const {
    return at.rank * share.columns + own(j);
  }
  __device__ __forceinline__ bool has(const Where& at, int j) const {
    return own(j) < share.columns && column(at, j) < kLayers[l].n;
  }
};

/// The thread's weights of layers [l, end).
template <int l, int end>
__device__ __forceinline__ void request(const Arguments& args, const Where& at, float* w) {
  if constexpr (l < end) {
    constexpr Layer layer = kLayers[l];
    constexpr Share share = Part<l>::share;
    const Part<l> part(at);
#pragma unroll
    for (int j = 0; j < share.per_thread; ++j) {
      const bool mine = part.has(at, j) && part.group < share.groups;
      const float* from =
          args.w[l] + part.column(at, j) * layer.w_n + part.group * (kRun * layer.w_k);
      asm("" : "+l"(from));  // worked out once; the rest of an address is a constant
#pragma unroll
      for (int i = 0; i < share.terms; ++i) {
        const int term = (i / kRun) * share.groups * kRun + i % kRun;
        const bool inside =
            term + (share.groups - 1) * kRun < layer.k || term + part.group * kRun < layer.k;
        w[before(l).weights + j * share.terms + i] =
            mine && inside ? __ldg(from + term * layer.w_k) : 0.0F;
      }
    }
    request<l + 1, end>(args, at, w);
  }
}

/// Biases of layers l and on.
template <int l>
__device__ __forceinline__ void request_biases(const Arguments& args, const Where& at,
                                               float* bias) {
  if constexpr (l < kDepth) {
    constexpr Layer layer = kLayers[l];
    constexpr Share share = share_of(layer, kShape);
    if constexpr (layer.has_bias) {
      constexpr bool by_row = layer.bias_n == 0;
#pragma unroll
      for (int j = 0; j < kBiasLoads<l>; ++j) {
        const int i = at.thread + j * kThreads;
        const int column = at.rank * share.columns + i;
        const bool inside =
            by_row ? i < kSlab && exists(at, i) : i < share.columns && column < layer.n;
        const int from = by_row ? (at.row + i) * layer.bias_m : column * layer.bias_n;
        bias[kBiasLoadsBefore<l> + j] = inside ? __ldg(args.bias[l] + from) : 0.0F;
      }
    }
    request_biases<l + 1>(args, at, bias);
  }
}

/// Terms past the end are zeros, as their weights are.
template <int l>
__device__ __forceinline__ void clear_padding(const Where& at, float* inputs) {
  if constexpr (l < kDepth) {
    constexpr Share share = share_of(kLayers[l], kShape);
    constexpr int begin = kLayers[l].k * kSlab;
    constexpr int end = share.padded_k * kSlab;
#pragma unroll
    for (int i = begin; i < end; i += kThreads) {
      if (i + at.thread < end) inputs[kInputsAt<l> + i + at.thread] = 0.0F;
    }
    clear_padding<l + 1>(at, inputs);
  }
}

template <int l>
__device__ __forceinline__ void keep_biases(const Where& at, const float* bias, float* biases) {
  if constexpr (l < kDepth) {
#pragma unroll
    for (int j = 0; j < kBiasLoads<l>; ++j) {
      const int i = at.thread + j * kThreads;
      if (i < kBiases<l>) biases[before(l).biases + i] = bias[kBiasLoadsBefore<l> + j];
    }
    keep_biases<l + 1>(at, bias, biases);
  }
}

constexpr int kInputs = kLayers[0].k * kSlab;
constexpr int kInputLoads = (kInputs + kThreads - 1) / kThreads;

/// Neighbouring threads take neighbouring terms.
__device__ __forceinline__ void request_input(const Arguments& args, const Where& at, float* x) {
#pragma unroll
  for (int j = 0; j < kInputLoads; ++j) {
    const int i = j * kThreads + at.thread;
    const int row = i / kLayers[0].k;
    const int term = i % kLayers[0].k;
    const int from = (at.row + row) * kInput.x_m + term * kInput.x_k;
    x[j] = i < kInputs && exists(at, row) ? __ldg(args.x + from) : 0.0F;
  }
}

__device__ __forceinline__ void keep_input(const Where& at, const float* x, float* inputs) {
#pragma unroll
  for (int j = 0; j < kInputLoads; ++j) {
    const int i = j * kThreads + at.thread;
    if (i < kInputs) inputs[i % kLayers[0].k * kSlab + i / kLayers[0].k] = x[j];
  }
}

}  // namespace ai::kernels::chain
