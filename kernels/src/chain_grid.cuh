// The grid kernel: all blocks together take up to four rows through all layers. Compiled at run
// time, behind a specification that chain_source.cpp writes: kInput, kShape (a GridShape), kDepth
// and kLayers[kDepth].
//
// A block has eight columns of a layer. Some of its warps fetch the weights of all layers, one
// layer after the other, into shared memory; others multiply, each thread four terms for four
// columns, and the last warp adds up what they have and sends it to all blocks through L2.
//
// What is sent is its own flag: a word is 0 until it is there, and no value is sent as 0 (values
// are sent inverted, and a NaN's bits are never all set). There are two sets of words: a launch
// uses one and clears the other for the next. Which one is told by a count of launches that each
// block keeps for itself, so that no block has to wait for another at the end.
//
// Instructions that run for the first time take several times as long as later on, and here every
// one would run once if layers had code of their own. Hence one loop over all layers, with sizes
// from a table, and a first run through it that computes and sends nothing.

#include "kernels/chain_grid_sums.cuh"

namespace ai::kernels::chain {

constexpr bool occurs(ActKind act) {
  for (int l = 0; l < kDepth; ++l) {
    if (kLayers[l].act == act) return true;
  }
  return false;
}

template <ActKind act>
constexpr bool kOccurs = occurs(act);

template <ActKind act>
__device__ __forceinline__ void apply_if(ActKind wanted, float z, float slope, float& y) {
  if constexpr (kOccurs<act>) {
    if (wanted == act) y = activation::apply<act>(z, slope);
  }
}

__device__ __forceinline__ float activate(ActKind act, float z, float slope) {
  float y = z;
  apply_if<ActKind::ReLU>(act, z, slope, y);
  apply_if<ActKind::LeakyReLU>(act, z, slope, y);
  apply_if<ActKind::ELU>(act, z, slope, y);
  apply_if<ActKind::GELU>(act, z, slope, y);
  apply_if<ActKind::GELUTanh>(act, z, slope, y);
  apply_if<ActKind::SiLU>(act, z, slope, y);
  apply_if<ActKind::Sigmoid>(act, z, slope, y);
  apply_if<ActKind::Tanh>(act, z, slope, y);
  return y;
}

/// Biases of layers l and on, for the lane's value.
template <int l>
__device__ __forceinline__ void request_biases(const Arguments& args, const Where& at, int lane) {
  if constexpr (l < kDepth) {
    constexpr Layer layer = kLayers[l];
    const int n = (at.block - kStage<l>.base) * kGridColumns + lane % kValues / kRows;
    const int row = lane % kRows;
    if (has<l>(at)) {
      const bool inside = layer.has_bias && n < layer.n && row < kInput.rows;
      const float* const from =
          inside ? args.bias[l] + (row * layer.bias_m + n * layer.bias_n) : args.x;
      copy<1>(at.shared + (kLayout.biases_at + (l + 1) * kWarp + lane) * 4, from, inside ? 4 : 0);
    }
    request_biases<l + 1>(args, at, lane);
  }
}

/// Of this warp's lanes, kValues have one result each; the others help them.
__device__ __forceinline__ void finish(const Arguments& args, const Where& at, GridStage* table) {
  constexpr int kHelpers = kWarp / kValues;
  constexpr int kCells = sizeof(Table) / 4;
  const int lane = at.thread % kWarp;
  const int value = lane % kValues;
  const int helper = lane / kValues;
  const int row = value % kRows;
  int cells[(kCells + kWarp - 1) / kWarp];
#pragma unroll
  for (int i = 0; i < kCells; i += kWarp)
    if (i + lane < kCells) cells[i / kWarp] = reinterpret_cast<const int*>(&kTable)[i + lane];
  request_biases<0>(args, at, lane);
#pragma unroll
  for (int i = 0; i < kCells; i += kWarp)
    if (i + lane < kCells) reinterpret_cast<int*>(table)[i + lane] = cells[i / kWarp];
  __syncwarp();
  arrive<kEverybody>(kPrepared);
  const unsigned layers = layers_of(at);
#pragma unroll 1
  for (int l = hidden(-1); l < kDepth; ++l) {
    if ((layers >> (l + 1) & 1) == 0) continue;
    const GridStage stage = table[l + 1];
    const float bias = load_shared(at.shared + (kLayout.biases_at + (l + 1) * kWarp + lane) * 4);
    const unsigned parts = parts_of(at, l) + lane * 4;
    const int record = stage.output_at + (at.block - stage.base) * kValues + value;
    unsigned* const to = words_of(args, at.launch, helper) + record;
    const int n = (at.block - stage.base) * kGridColumns + value / kRows;
    wait_for_all<kThreads + kWarp>(parts_barrier(l));
    float z = 0.0F;
#pragma unroll
    for (int p = 0; p < kWarps; p += kHelpers) {
      if (kWarps % kHelpers == 0 || p + helper < kWarps) z += load_shared(parts + p * kValues * 4);
    }
#pragma unroll
    for (int offset = kValues; offset < kWarp; offset *= 2) z += __shfl_xor_sync(~0U, z, offset);
    z = fmaf(z, stage.alpha, bias);
    // Columns past the end must not spoil sums of the next layer, where their weights are zeros.
    const float y = n < stage.n ? activate(stage.act, z, stage.slope) : 0.0F;
    if (l >= 0 && l + 1 < kDepth) {
      unsigned bits = ~__float_as_uint(y);
      if (bits == 0) bits = 0x80000000U;
#pragma unroll
      for (int c = 0; c < kShape.copies; c += kHelpers) {
        if (c + helper < kShape.copies) store_word(to + c * kLayout.words, bits);
      }
    }
    if (l >= 0 && helper == 0 && n < stage.n && row < kInput.rows) {
      if ((stage.writes & 2) != 0) args.z[l][row * stage.z_m + n] = z;
      if ((stage.writes & 1) != 0) args.y[l][row * stage.y_m + n] = y;
    }
    if (l < 0) {
      end_group();
      wait_for_groups<0>();
    }
  }
  if (lane == 0) args.state[at.block * kGridRecord] = at.launch + 1;
}

extern "C" __global__ void __launch_bounds__(kEverybody, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) float shared[];
  if (args.x == nullptr) return;  // Step::enqueue
  Where at{static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x),
           static_cast<unsigned>(hidden(static_cast<int>(shared_address(shared)))), 0};
  GridStage* const table = reinterpret_cast<GridStage*>(shared + kLayout.table_at);
  float x[kFirst * kTerms];
  float first[kFirst * kGridTerms * 4];
  if (kDirect && at.thread < kThreads) {
    request_input<kFirst>(args, at.thread / kGridLanes, x);
    request_first(args, at, first);
  }
  at.launch = load_word(args.state + at.block * kGridRecord);
  if (at.thread < kThreads) {
    multiply(args, at, table, x, first);
  } else if (at.thread >= kThreads + kGridFetching) {
    finish(args, at, table);
  } else {
    const int thread = at.thread - kThreads;
    if (thread < kDepth) make_barrier(barrier_of(at, thread), kGridFetching);
    arrive<kEverybody>(kPrepared);
    wait_for_all<kThreads + kGridFetching>(kReady);
    fetch<kDirect ? 1 : 0>(args, at);
    clear<0>(args, at);
  }
}

}  // namespace ai::kernels::chain
