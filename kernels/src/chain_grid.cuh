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

namespace ai::kernels::chain {

struct Arguments {
  const float* x;
  const float* w[kDepth];
  const float* bias[kDepth];
  float* y[kDepth];
  float* z[kDepth];
  unsigned* state;
  float* scratch;
};

constexpr int kRows = grid_rows(kInput);
constexpr int kThreads = kShape.threads;
constexpr int kWarps = kThreads / kWarp;
constexpr int kValues = kGridColumns * kRows;  // of a block and a layer
constexpr GridLayout kLayout = grid_layout(kLayers, kDepth, kInput, kShape);
constexpr int kPerThread = kLayout.per_thread;
constexpr int kTerms = kGridTerms * kRows;  // values of a chunk
constexpr int kAll = kPerThread * kTerms;   // of a thread and a layer

/// Where the run before the first layer finds its sizes: at 0; layer l has l + 1.
struct Table {
  GridStage stages[kDepth + 1];
  Layer layers[kDepth];
};

constexpr Table make_table() {
  Table table = {};
  table.stages[0].blocks = kShape.blocks;
  table.stages[0].chunks = kLayout.words / kTerms;
  table.stages[0].weights_at = kLayout.weights / 4;
  for (int l = 0; l < kDepth; ++l) {
    table.stages[l + 1] = grid_stage(kLayers, l, kInput, kShape);
    table.layers[l] = kLayers[l];
  }
  return table;
}

__constant__ const Table kTable = make_table();

struct Where {
  int block;
  int thread;
  unsigned shared;  // address
  unsigned launch;  // how many were before
};

__device__ __forceinline__ bool has(const GridStage& stage, int block) {
  return static_cast<unsigned>(block - stage.base) < static_cast<unsigned>(stage.blocks);
}

__device__ __forceinline__ unsigned barrier_of(const Where& at, int l) {
  return at.shared + kLayout.barriers_at * 4 + l * 8;
}

/// Nobody is two layers ahead of another thread: a few barriers are enough.
__device__ __forceinline__ int parts_barrier(int l) {
  return 1 + (l + 1) % 8;
}

/// A bit for each layer that the block has, and for the run before the first one, which is bit 0.
/// Brings sizes of all layers near.
__device__ __forceinline__ unsigned layers_of(const Where& at) {
  unsigned layers = 0;
#pragma unroll
  for (int l = 0; l <= kDepth; ++l) layers |= has(kTable.stages[l], at.block) ? 1U << l : 0U;
  return layers;
}

/// Address of the sums of the warps for layer l.
__device__ __forceinline__ unsigned parts_of(const Where& at, int l) {
  return at.shared + (kLayout.parts_at + (l + 1) * kWarps * kValues) * 4;
}

/// The words of one copy in the set of a launch.
__device__ __forceinline__ unsigned* words_of(const Arguments& args, unsigned launch, int copy) {
  unsigned* const words = args.state + kShape.blocks * kGridRecord;
  return words + (launch % 2 * kShape.copies + copy) * kLayout.words;
}

// ---- instructions

__device__ __forceinline__ unsigned load_word(const unsigned* from) {
  unsigned v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
}

__device__ __forceinline__ void load_words(const unsigned* from, unsigned* v) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(from)
               : "memory");
}

__device__ __forceinline__ void store_word(unsigned* to, unsigned v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}

template <int bytes>
__device__ __forceinline__ void copy_async(unsigned to, const float* from, bool inside) {
  const int size = inside ? bytes : 0;  // the rest becomes zeros
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(size)
                 : "memory");
  }
}

/// Waits until at most `ahead` groups of copies are on their way, the one that ends here included.
template <int ahead>
__device__ __forceinline__ void end_group() {
  asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" ::"n"(ahead) : "memory");
}

__device__ __forceinline__ void make_barrier(unsigned barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/// As soon as the thread's copies are there.
__device__ __forceinline__ void arrive_after_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ bool has_completed(unsigned barrier) {
  unsigned done;
  asm volatile(
      "{\n.reg .pred p;\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared.b64 p, [%1], 0;\n"
#else
      "mbarrier.test_wait.parity.shared.b64 p, [%1], 0;\n"
#endif
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ float load_shared(unsigned from) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(from) : "memory");
  return v;
}

__device__ __forceinline__ float4 load_shared4(unsigned from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_shared(unsigned to, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}

/// Named barriers: those who multiply arrive, the warp that finishes waits.
__device__ __forceinline__ void arrive(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kThreads + kWarp) : "memory");
}

__device__ __forceinline__ void wait_for_all(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads + kWarp) : "memory");
}

/// A number that the compiler knows nothing about.
__device__ __forceinline__ int hidden(int value) {
  asm volatile("mov.s32 %0, %0;" : "+r"(value));
  return value;
}

// ---- weights

/// No more slices on their way than the shape allows.
__device__ __forceinline__ void end_slice() {
  if constexpr (kShape.ahead > 0) {
    end_group<kShape.ahead>();
  }
}

/// Term 4c + u of column 4h + j lies at [u][2c + h][j].
template <bool wide>
__device__ __forceinline__ void fetch_layer(const float* w, const Layer& layer,
                                            const GridStage& stage, int column, int thread,
                                            unsigned to) {
  const int left = layer.n - column - thread % kGridLanes * 4;  // columns
  const int k = layer.k;
  const long long row = layer.w_k;
  const int side = layer.w_n;
  int term = thread / kGridLanes * kGridTerms;
  const float* from = w + term * row + (column + thread % kGridLanes * 4) * side;
  const unsigned step = stage.slots * 16;
  const unsigned end = to + step;
#pragma unroll 1
  for (to += thread * 16; to < end; to += kGridFetching * 16) {
#pragma unroll
    for (int u = 0; u < kGridTerms; ++u) {
      const float* const here = from + u * row;
      if constexpr (wide) {
        const bool inside = left > 0 && term + u < k;
        copy_async<16>(to + u * step, inside ? here : w, inside);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool inside = j < left && term + u < k;
          copy_async<4>(to + u * step + 4 * j, inside ? here + j * side : w, inside);
        }
      }
    }
    end_slice();
    term += kGridFetching / kGridLanes * kGridTerms;
    from += kGridFetching / kGridLanes * kGridTerms * row;
  }
}

constexpr int count_wide() {
  int count = 0;
  for (int l = 0; l < kDepth; ++l) count += grid_goes_wide(kLayers[l]);
  return count;
}
constexpr int kWide = count_wide();

__device__ __forceinline__ void fetch(const Arguments& args, const Where& at) {
  const int thread = at.thread - kThreads;
#pragma unroll 1
  for (int l = 0; l < kDepth; ++l) {
    const GridStage stage = kTable.stages[l + 1];
    if (!has(stage, at.block)) continue;
    const Layer& layer = kTable.layers[l];
    const int column = (at.block - stage.base) * kGridColumns;
    const unsigned to = at.shared + stage.weights_at * 16;
    if (kWide > 0 && (kWide == kDepth || stage.wide)) {
      fetch_layer<true>(args.w[l], layer, stage, column, thread, to);
    } else if constexpr (kWide < kDepth) {
      fetch_layer<false>(args.w[l], layer, stage, column, thread, to);
    }
    arrive_after_copies(barrier_of(at, l));
  }
  // What the next launch sends has to look as if it were not there; it also counts.
#pragma unroll 1
  for (int l = 0; l + 1 < kDepth; ++l) {
    const GridStage stage = kTable.stages[l + 1];
    if (!has(stage, at.block)) continue;
    const int record = stage.output_at + (at.block - stage.base) * kValues;
    for (int i = thread; i < kValues * kShape.copies; i += kGridFetching)
      words_of(args, at.launch + 1, i / kValues)[record + i % kValues] = 0;
  }
  if (thread == 0) args.state[at.block * kGridRecord] = at.launch + 1;
}

/// Until the weights of layer l are there.
__device__ __forceinline__ void wait_for_weights(const Where& at, int l) {
  while (!has_completed(barrier_of(at, l))) continue;
}

// ---- sums

/// Sums over the threads of a warp that have the same columns. As long as a thread has several
/// values it keeps half of them: in the end `a[0]` is value `which`, and one thread of those that
/// have it `keeps` it.
template <int count, int offset>
__device__ __forceinline__ void add_lanes(float* a, int lane, int& which, bool& keeps) {
  if constexpr (offset >= kGridLanes) {
    const bool up = (lane & offset) != 0;
    if constexpr (count > 1) {
      constexpr int half = count / 2;
#pragma unroll
      for (int i = 0; i < half; ++i) {
        const float give = up ? a[i] : a[i + half];
        const float keep = up ? a[i + half] : a[i];
        a[i] = keep + __shfl_xor_sync(~0U, give, offset);
      }
      which += up ? half : 0;
      add_lanes<half, offset / 2>(a, lane, which, keeps);
    } else {
      a[0] += __shfl_xor_sync(~0U, a[0], offset);
      keeps = keeps && !up;
      add_lanes<1, offset / 2>(a, lane, which, keeps);
    }
  }
}

/// The words of the thread's chunks; all ones where it has none.
__device__ __forceinline__ void look(const unsigned* from, int group, int chunks, unsigned* bits) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int chunk = group + i * (kThreads / kGridLanes);
#pragma unroll
    for (int q = 0; q < kTerms; q += 4) {
      unsigned* const v = bits + i * kTerms + q;
      v[0] = v[1] = v[2] = v[3] = ~0U;
      if (chunk < chunks) load_words(from + chunk * kTerms + q, v);
    }
  }
}

__device__ __forceinline__ bool all_there(const unsigned* bits) {
  bool there = true;
#pragma unroll
  for (int i = 0; i < kAll; ++i) there = there && bits[i] != 0;
  return there;
}

__device__ __forceinline__ void request_input(const Arguments& args, int group, float* x) {
#pragma unroll
  for (int i = 0; i < kAll; ++i) {
    const int term =
        (group + i / kTerms * (kThreads / kGridLanes)) * kGridTerms + i % kTerms / kRows;
    const int row = i % kRows;
    x[i] = 0.0F;
    if (term < kLayers[0].k && row < kInput.rows)
      x[i] = __ldg(args.x + row * kInput.x_m + term * kInput.x_k);
  }
}

__device__ __forceinline__ void multiply(const Arguments& args, const Where& at, const float* x) {
  const int group = at.thread / kGridLanes;
  const int lane = at.thread % kWarp;
  const unsigned* const words = words_of(args, at.launch, at.block % kShape.copies);
  const unsigned layers = layers_of(at);
#pragma unroll 1
  for (int l = hidden(-1); l < kDepth; ++l) {
    if ((layers >> (l + 1) & 1) == 0) continue;
    const GridStage& stage = kTable.stages[l + 1];
    const unsigned* const from = words + stage.input_at;
    unsigned bits[kAll];
    if (l != 0) look(from, group, stage.chunks, bits);
    if (l >= 0) wait_for_weights(at, l);
    float4 w[kPerThread][kGridTerms];
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int slot = i * kThreads + at.thread;
      const unsigned mine = at.shared + (stage.weights_at + (l < 0 ? 0 : slot)) * 16;
#pragma unroll
      for (int u = 0; u < kGridTerms; ++u) {
        w[i][u] = float4{0.0F, 0.0F, 0.0F, 0.0F};
        if (slot / kGridLanes < stage.chunks) w[i][u] = load_shared4(mine + u * stage.slots * 16);
      }
    }
    if (l > 0) {
      while (!all_there(bits)) {
        look(from, group, stage.chunks, bits);
      }
    }
    float v[kAll];
#pragma unroll
    for (int i = 0; i < kAll; ++i) v[i] = l == 0 ? x[i] : __uint_as_float(~bits[i]);
    float sums[4 * kRows] = {};
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int u = 0; u < kGridTerms; ++u) {
        const float4 four = w[i][u];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float in = v[i * kTerms + u * kRows + r];
          sums[r] = fmaf(in, four.x, sums[r]);
          sums[kRows + r] = fmaf(in, four.y, sums[kRows + r]);
          sums[2 * kRows + r] = fmaf(in, four.z, sums[2 * kRows + r]);
          sums[3 * kRows + r] = fmaf(in, four.w, sums[3 * kRows + r]);
        }
      }
    }
    int which = 0;
    bool keeps = true;
    add_lanes<4 * kRows, kWarp / 2>(sums, lane, which, keeps);
    const int own = at.thread % kGridLanes * 4 * kRows + which;
    if (keeps) store_shared(parts_of(at, l) + (at.thread / kWarp * kValues + own) * 4, sums[0]);
    arrive(parts_barrier(l));
  }
}

// ---- results

constexpr bool occurs(ActKind act) {
  for (int l = 0; l < kDepth; ++l) {
    if (kLayers[l].act == act) return true;
  }
  return false;
}

template <ActKind act>
constexpr bool kOccurs = occurs(act);

template <ActKind act>
__device__ __forceinline__ void apply_if(const Layer& layer, float z, float& y) {
  if constexpr (kOccurs<act>) {
    if (layer.act == act) y = activation::apply<act>(z, layer.slope);
  }
}

__device__ __forceinline__ float activate(const Layer& layer, float z) {
  float y = z;
  apply_if<ActKind::ReLU>(layer, z, y);
  apply_if<ActKind::LeakyReLU>(layer, z, y);
  apply_if<ActKind::ELU>(layer, z, y);
  apply_if<ActKind::GELU>(layer, z, y);
  apply_if<ActKind::GELUTanh>(layer, z, y);
  apply_if<ActKind::SiLU>(layer, z, y);
  apply_if<ActKind::Sigmoid>(layer, z, y);
  apply_if<ActKind::Tanh>(layer, z, y);
  return y;
}

/// Of the last warp's lanes, kValues have one result each; the others help them.
__device__ __forceinline__ void request_biases(const Arguments& args, const Where& at, int lane) {
  const int column = lane % kValues / kRows;
  const int row = lane % kRows;
#pragma unroll 1
  for (int l = 0; l < kDepth; ++l) {
    const GridStage stage = kTable.stages[l + 1];
    if (!has(stage, at.block)) continue;
    const Layer& layer = kTable.layers[l];
    const int n = (at.block - stage.base) * kGridColumns + column;
    const bool inside = layer.has_bias && n < layer.n && row < kInput.rows;
    const float* const from =
        inside ? args.bias[l] + row * layer.bias_m + n * layer.bias_n : args.x;
    copy_async<4>(at.shared + (kLayout.biases_at + (l + 1) * kWarp + lane) * 4, from, inside);
  }
}

__device__ __forceinline__ void finish(const Arguments& args, const Where& at) {
  const int lane = at.thread % kWarp;
  constexpr int kHelpers = kWarp / kValues;
  const int value = lane % kValues;
  const int helper = lane / kValues;
  const int row = value % kRows;
  request_biases(args, at, lane);
  const unsigned layers = layers_of(at);
#pragma unroll 1
  for (int l = hidden(-1); l < kDepth; ++l) {
    if ((layers >> (l + 1) & 1) == 0) continue;
    const GridStage& stage = kTable.stages[l + 1];
    const Layer& layer = kTable.layers[l < 0 ? 0 : l];
    if (l == 0) end_group<0>();
    const float bias = load_shared(at.shared + (kLayout.biases_at + (l + 1) * kWarp + lane) * 4);
    const unsigned parts = parts_of(at, l) + lane * 4;
    const int record = stage.output_at + (at.block - stage.base) * kValues + value;
    unsigned* const to = words_of(args, at.launch, helper) + record;
    const int n = (at.block - stage.base) * kGridColumns + value / kRows;
    const float alpha = layer.alpha;
    wait_for_all(parts_barrier(l));
    float z = 0.0F;
#pragma unroll
    for (int p = 0; p < kWarps; p += kHelpers) {
      if (kWarps % kHelpers == 0 || p + helper < kWarps) z += load_shared(parts + p * kValues * 4);
    }
#pragma unroll
    for (int offset = kValues; offset < kWarp; offset *= 2) z += __shfl_xor_sync(~0U, z, offset);
    z = fmaf(z, alpha, bias);
    // Columns past the end must not spoil sums of the next layer, where their weights are zeros.
    float y = n < layer.n ? activate(layer, z) : 0.0F;
    if (l >= 0 && l + 1 < kDepth) {
      unsigned bits = ~__float_as_uint(y);
      if (bits == 0) bits = 0x80000000U;
#pragma unroll
      for (int c = 0; c < kShape.copies; c += kHelpers) {
        if (c + helper < kShape.copies) store_word(to + c * kLayout.words, bits);
      }
    }
    if (l >= 0 && helper == 0 && n < layer.n && row < kInput.rows) {
      if (layer.writes_z) args.z[l][row * layer.z_m + n] = z;
      if (layer.writes_y) args.y[l][row * layer.y_m + n] = y;
    }
  }
}

extern "C" __global__ void __launch_bounds__(grid_threads(kShape), 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) float shared[];
  Where at{static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x),
           static_cast<unsigned>(hidden(static_cast<int>(shared_address(shared)))), 0};
  at.launch = load_word(args.state + at.block * kGridRecord);
  if (at.thread < kDepth) make_barrier(barrier_of(at, at.thread), kGridFetching);
  __syncthreads();
  if (at.thread < kThreads) {
    float x[kAll];
    request_input(args, at.thread / kGridLanes, x);
    multiply(args, at, x);
  } else if (at.thread < kThreads + kGridFetching) {
    fetch(args, at);
  } else {
    finish(args, at);
  }
}

}  // namespace ai::kernels::chain
