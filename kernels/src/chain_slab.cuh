// The chain kernel. It is compiled at run time, behind a specification that chain_source.cpp
// writes: kInput, kShape, kDepth and kLayers[kDepth], all constants: with sizes that are known only
// at run time a layer takes several times as long.
//
// Weights do not depend on activations: every thread requests its own, of as many layers as its
// registers hold, before the first layer begins, and of further ones as soon as there is room.
// Between layers results go to the shared memory of every block of the cluster, which waits for
// them at one barrier a layer.

#include "kernels/chain_slab_fetch.cuh"

namespace ai::kernels::chain {

/// The thread's share of every sum, over its terms and then over the warp; what is left goes into
/// `parts`: part p of column c (of the block) and row r at [(p * columns + c) * kSlab + r], where
/// `columns` counts those that nobody has, too.
template <int l>
__device__ __forceinline__ void add_up(const Where& at, const float* w, const float* inputs,
                                       float* parts) {
  constexpr Share share = Part<l>::share;
  constexpr bool all_take_part = share.groups * share.lanes == kThreads;
  constexpr int kSums = kSlab < 4 ? 4 : kSlab;  // independent ones, for the sake of latency
  const Part<l> mine(at);
  float sums[share.per_thread][kSums] = {};
  if (all_take_part || mine.group < share.groups) {
    const float* in = inputs + kInputsAt<l> + mine.group * (kRun * kSlab);
#pragma unroll
    for (int i = 0; i < share.terms; i += kRun) {
      float v[kRun * kSlab];
#pragma unroll
      for (int q = 0; q < kRun * kSlab; q += 4) {
        const float4 four = *reinterpret_cast<const float4*>(in + i * share.groups * kSlab + q);
        v[q] = four.x;
        v[q + 1] = four.y;
        v[q + 2] = four.z;
        v[q + 3] = four.w;
      }
#pragma unroll
      for (int j = 0; j < share.per_thread; ++j) {
#pragma unroll
        for (int q = 0; q < kRun * kSlab; ++q) {
          float& sum = sums[j][q % kSums];
          sum = fmaf(v[q], w[before(l).weights + j * share.terms + i + q / kSlab], sum);
        }
      }
    }
  }
  const bool keeps = share.lanes < kWarp ? at.thread % kWarp < share.lanes
                                         : all_take_part || mine.group < share.groups;
  const int part = share.lanes < kWarp ? at.thread / kWarp : mine.group;
#pragma unroll
  for (int j = 0; j < share.per_thread; ++j) {
#pragma unroll
    for (int r = 0; r < kSlab; ++r) {
      float total = sums[j][r];
      if constexpr (kSlab == 1) total = (sums[j][0] + sums[j][1]) + (sums[j][2] + sums[j][3]);
      if constexpr (kSlab == 2) total = sums[j][r] + sums[j][2 + r];
#pragma unroll
      for (int offset = share.lanes; offset < kWarp; offset *= 2) {
        total += __shfl_xor_sync(~0U, total, offset);
      }
      const int at_part = ((part * share.per_thread + j) * share.lanes + mine.lane) * kSlab + r;
      if (keeps) parts[at_part] = total;
    }
  }
}

/// Y of one element, whose parts begin at `from`. Whoever `stores` writes Y and Z as asked.
template <int l>
__device__ __forceinline__ float finish(const Arguments& args, const Where& at, const float* parts,
                                        const float* biases, int own, int r, bool stores) {
  constexpr Layer layer = kLayers[l];
  constexpr Share share = share_of(layer, kShape);
  constexpr int kStride = share.per_thread * share.lanes * kSlab;
  const int column = at.rank * share.columns + own;
  float z = 0.0F;
#pragma unroll
  for (int p = 0; p < share.parts; ++p) z += parts[p * kStride + own * kSlab + r];
  z *= layer.alpha;
  if constexpr (layer.has_bias) z += biases[before(l).biases + (layer.bias_n == 0 ? r : own)];
  const float y = activation::apply<layer.act>(z, layer.slope);
  if (stores && exists(at, r)) {
    if constexpr (layer.writes_z) args.z[l][(at.row + r) * layer.z_m + column] = z;
    if constexpr (layer.writes_y) args.y[l][(at.row + r) * layer.y_m + column] = y;
  }
  return y;
}

/// Groups of threads each compute all of the block's results and send them to some blocks.
template <int l>
__device__ __forceinline__ void pass_on(const Arguments& args, const Where& at, const float* parts,
                                        const float* biases, float* inputs, unsigned barriers) {
  constexpr Share share = Part<l>::share;
  constexpr bool last = l + 1 == kDepth;
  constexpr int kGroups = last || kCluster == 1     ? 1
                          : share.groups < kCluster ? share.groups
                                                    : kCluster;
  const Part<l> part(at);
#pragma unroll
  for (int j = 0; j < share.per_thread; ++j) {
    if (!part.has(at, j) || part.group >= kGroups) continue;
    float y[kSlab];
#pragma unroll
    for (int r = 0; r < kSlab; ++r)
      y[r] = finish<l>(args, at, parts, biases, part.own(j), r, part.group == 0);
    if constexpr (!last) {
      float* const to = inputs + kInputsAt<l + 1> + part.column(at, j) * kSlab;
      if constexpr (kCluster == 1) {
#pragma unroll
        for (int r = 0; r < kSlab; ++r) to[r] = y[r];
      } else {
#pragma unroll
        for (int q = 0; q < (kCluster + kGroups - 1) / kGroups; ++q) {
          const int rank = part.group + q * kGroups;
          if (kCluster % kGroups != 0 && rank >= kCluster) continue;
          send<kSlab>(in_block(shared_address(to), rank), y,
                      in_block(barriers + 8 * (l + 1), rank));
        }
      }
    }
  }
}

/// Every result is computed once; then all threads send them, 16 bytes at a time.
template <int l>
__device__ __forceinline__ void pass_on_staged(const Arguments& args, const Where& at,
                                               const float* parts, const float* biases,
                                               float* staged, float* inputs, unsigned barriers) {
  constexpr Share share = share_of(kLayers[l], kShape);
  constexpr bool last = l + 1 == kDepth;
  constexpr int kResults = share.columns * kSlab;
  float* const results = kCluster == 1 && !last ? inputs + kInputsAt<l + 1> : staged;
#pragma unroll
  for (int i = 0; i < (kResults + kThreads - 1) / kThreads; ++i) {
    const int e = i * kThreads + at.thread;
    const int own = e / kSlab;
    if (own >= share.columns || at.rank * share.columns + own >= kLayers[l].n) continue;
    const float y = finish<l>(args, at, parts, biases, own, e % kSlab, true);
    if constexpr (!last) results[e] = y;
  }
  if constexpr (!last && kCluster > 1) {
    __syncthreads();
    constexpr int kVector = kSlab < 4 ? kSlab : 4;
    constexpr int kPieces = kResults / kVector;
    const int first = at.rank * share.columns * kSlab;
#pragma unroll
    for (int i = 0; i < (kPieces * kCluster + kThreads - 1) / kThreads; ++i) {
      const int e = i * kThreads + at.thread;
      const int at_piece = e % kPieces * kVector;
      const int rank = e / kPieces;
      if (rank >= kCluster || first + at_piece >= kLayers[l].n * kSlab) continue;
      float v[kVector];
#pragma unroll
      for (int q = 0; q < kVector; ++q) v[q] = results[at_piece + q];
      const float* const to = inputs + kInputsAt<l + 1> + first + at_piece;
      send<kVector>(in_block(shared_address(to), rank), v, in_block(barriers + 8 * (l + 1), rank));
    }
  }
}

/// Layers l and on. Two areas of parts take turns: whoever still reads those of a layer is waited
/// for in the next one, before the layer after that writes the same area.
template <int l>
__device__ __forceinline__ void compute(const Arguments& args, const Where& at, float* w,
                                        float* shared, unsigned barriers) {
  if constexpr (l < kDepth) {
    if constexpr (l > 0) {
      if constexpr (kCluster > 1) {
        wait(barriers + 8 * l);
      } else {
        __syncthreads();
      }
    }
    float* const parts = shared + kLayout.parts_at + l % 2 * kLayout.parts;
    const float* const biases = shared + kLayout.biases_at;
    add_up<l>(at, w, shared, parts);
    request<kRequested<l>, kRequested<l + 1>>(args, at, w);
    __syncthreads();
    // Not before: a branch before the first sums makes the compiler wait for all weights there.
    if constexpr (l == 0 && kCluster > 1) meet_end();
    if constexpr (kShape.staged) {
      pass_on_staged<l>(args, at, parts, biases, shared + kLayout.staged_at, shared, barriers);
    } else {
      pass_on<l>(args, at, parts, biases, shared, barriers);
    }
    compute<l + 1>(args, at, w, shared, barriers);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) float shared[];
  const int block = static_cast<int>(blockIdx.x);
  const Where at{block % kCluster, static_cast<int>(threadIdx.x), block / kCluster * kSlab};
  __builtin_assume(block >= 0);
  __builtin_assume(at.thread >= 0);
  __builtin_assume(at.thread < kThreads);
  const unsigned barriers = shared_address(shared + kLayout.barriers_at);
  if constexpr (kCluster > 1) {
    if (at.thread == 0) make_barriers<1>(barriers);
    meet_begin();
  }
  // Everything is on its way before the first of it is waited for.
  float x[kInputLoads];
  float w[kLayout.weights];
  float bias[kBiasLoadsBefore<kDepth> + 1];
  request_input(args, at, x);
  request<0, kRequested<0>>(args, at, w);
  request_biases<0>(args, at, bias);
  clear_padding<0>(at, shared);
  keep_input(at, x, shared);
  keep_biases<0>(at, bias, shared + kLayout.biases_at);
  __syncthreads();
  compute<0>(args, at, w, shared, barriers);
}

}  // namespace ai::kernels::chain
