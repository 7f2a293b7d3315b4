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
constexpr bool kDirect = grid_direct(kLayers, kInput, kShape);
constexpr bool kEarly = grid_early(kPerThread, kInput);
constexpr int kFirst = kDirect ? grid_per_thread(kLayers[0], kShape) : 1;  // chunks, if direct

/// The run before the first layer has no terms and sends nothing.
struct Table {
  GridStage stages[kDepth + 1];
};

constexpr Table make_table() {
  Table table = {};
  table.stages[0].blocks = kShape.blocks;
  for (int l = 0; l < kDepth; ++l) table.stages[l + 1] = grid_stage(kLayers, l, kInput, kShape);
  return table;
}

template <int l>
constexpr bool kWide = grid_goes_wide(kLayers[l]);
template <int l>
constexpr GridStage kStage = grid_stage(kLayers, l, kInput, kShape);

__device__ const Table kTable = make_table();

struct Where {
  int block;
  int thread;
  unsigned shared;  // its address
  unsigned launch;  // how many were before
};

template <int l>
__device__ __forceinline__ bool has(const Where& at) {
  constexpr GridStage stage = kStage<l>;
  return static_cast<unsigned>(at.block - stage.base) < static_cast<unsigned>(stage.blocks);
}

__device__ __forceinline__ unsigned barrier_of(const Where& at, int l) {
  return at.shared + kLayout.barriers_at * 4 + l * 8;
}

constexpr int kReady = 14;     // weights of the first layer are requested
constexpr int kPrepared = 15;  // there are barriers and a table
constexpr int kEverybody = grid_threads(kShape);

/// Nobody is two layers ahead of another thread: a few barriers are enough.
__device__ __forceinline__ int parts_barrier(int l) {
  return 1 + (l + 1) % 8;
}

/// A bit for each layer that the block has, and for the run before the first one, which is bit 0.
template <int l = 0>
__device__ __forceinline__ unsigned layers_of(const Where& at) {
  if constexpr (l == kDepth) {
    return 1;
  } else {
    return (has<l>(at) ? 2U << l : 0U) | layers_of<l + 1>(at);
  }
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

/// Not before what stands before them, not after what stands after them.
__device__ __forceinline__ float load_plain(const float* from) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(from) : "memory");
  return v;
}

__device__ __forceinline__ void load_plain4(const float* from, float* v) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "l"(from)
               : "memory");
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

__device__ __forceinline__ void load_shared4(unsigned from, float* v) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void store_shared(unsigned to, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}

/// Named barriers.
template <int threads>
__device__ __forceinline__ void arrive(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

template <int threads>
__device__ __forceinline__ void wait_for_all(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

/// A number that the compiler knows nothing about.
__device__ __forceinline__ int hidden(int value) {
  asm volatile("mov.s32 %0, %0;" : "+r"(value));
  return value;
}

// ---- weights

/// No more slices on their way than the shape allows.
__device__ __forceinline__ void end_slice() {
  if constexpr (kShape.ahead > 0) end_group<kShape.ahead>();
}

/// Term 4c + u of column 4h + j lies at [u][2c + h][j]. A slice is two copies of every thread.
template <int l>
__device__ __forceinline__ void fetch(const Arguments& args, const Where& at) {
  if constexpr (l < kDepth) {
    constexpr Layer layer = kLayers[l];
    constexpr GridStage stage = kStage<l>;
    constexpr int end = stage.chunks * kGridTerms;
    constexpr int kStep = kGridFetching / kGridLanes * kGridTerms;  // terms
    if (has<l>(at)) {
      const int thread = at.thread - kThreads;
      const int column = (at.block - stage.base) * kGridColumns + thread % kGridLanes * 4;
      int term = thread / kGridLanes * kGridTerms;
      const float* from =
          args.w[l] + (static_cast<long long>(term) * layer.w_k + column * layer.w_n);
      unsigned to = at.shared + stage.weights_at + thread * 16;
#pragma unroll 1
      for (; term < end; term += kStep) {
#pragma unroll
        for (int u = 0; u < kGridTerms; ++u) {
          const bool row = layer.k % kGridTerms == 0 || term + u < layer.k;
          if constexpr (kWide<l>) {
            const bool inside = row && (layer.n % kGridColumns == 0 || column < layer.n);
            copy_async<16>(to + u * stage.step, inside ? from + u * layer.w_k : args.w[l], inside);
          } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const bool inside = row && column + j < layer.n;
              const float* const here = from + (u * layer.w_k + j * layer.w_n);
              copy_async<4>(to + u * stage.step + 4 * j, inside ? here : args.w[l], inside);
            }
          }
          if (u % 2 == 1) end_slice();
        }
        from += static_cast<long long>(kStep) * layer.w_k;
        to += kGridFetching * 16;
      }
      arrive_after_copies(barrier_of(at, l));
    }
    fetch<l + 1>(args, at);
  }
}

/// What the next launch sends has to look as if it were not there.
template <int l>
__device__ __forceinline__ void clear(const Arguments& args, const Where& at) {
  if constexpr (l + 1 < kDepth) {
    if (has<l>(at)) {
      const int record = kStage<l>.output_at + (at.block - kStage<l>.base) * kValues;
      for (int i = at.thread - kThreads; i < kValues * kShape.copies; i += kGridFetching)
        words_of(args, at.launch + 1, i / kValues)[record + i % kValues] = 0;
    }
    clear<l + 1>(args, at);
  }
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

/// The network's input, for `chunks` chunks.
template <int chunks>
__device__ __forceinline__ void request_input(const Arguments& args, int group, float* x) {
#pragma unroll
  for (int i = 0; i < chunks * kTerms; ++i) {
    const int chunk = group + i / kTerms * (kThreads / kGridLanes);
    const int term = chunk * kGridTerms + i % kTerms / kRows;
    const int row = i % kRows;
    x[i] = 0.0F;
    if (term < kLayers[0].k && row < kInput.rows)
      x[i] = load_plain(args.x + (row * kInput.x_m + term * kInput.x_k));
  }
}

/// The first layer's weights: w[i * 16 + u * 4 + j] is for term u, column j of chunk i.
__device__ __forceinline__ void request_first(const Arguments& args, const Where& at, float* w) {
  constexpr Layer layer = kLayers[0];
  const int group = at.thread / kGridLanes;
  const int column = (at.block - kStage<0>.base) * kGridColumns + at.thread % kGridLanes * 4;
#pragma unroll
  for (int i = 0; i < kFirst; ++i) {
#pragma unroll
    for (int u = 0; u < kGridTerms; ++u) {
      const int term = (group + i * (kThreads / kGridLanes)) * kGridTerms + u;
      float* const to = w + (i * kGridTerms + u) * 4;
      to[0] = to[1] = to[2] = to[3] = 0.0F;
      const bool row = has<0>(at) && term < layer.k;
      const float* const from =
          args.w[0] + (static_cast<long long>(term) * layer.w_k + column * layer.w_n);
      if constexpr (kWide<0>) {
        if (row && column < layer.n) load_plain4(from, to);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (row && column + j < layer.n) to[j] = load_plain(from + j * layer.w_n);
        }
      }
    }
  }
}

/// The weights of a chunk's term.
__device__ __forceinline__ void load_weights(unsigned from, bool inside, float* w) {
  w[0] = w[1] = w[2] = w[3] = 0.0F;
  if (inside) load_shared4(from, w);
}

/// Adds to sums[j * kRows + r].
template <int terms>
__device__ __forceinline__ void add_up(const float* v, const float* w, float* sums) {
#pragma unroll
  for (int i = 0; i < terms; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        sums[j * kRows + r] = fmaf(v[i * kRows + r], w[i * 4 + j], sums[j * kRows + r]);
    }
  }
}

__device__ __forceinline__ void multiply(const Arguments& args, const Where& at,
                                         const GridStage* table) {
  const int group = at.thread / kGridLanes;
  const int lane = at.thread % kWarp;
  float x[kFirst * kTerms];
  float first[kFirst * kGridTerms * 4];
  if constexpr (kDirect) {
    request_input<kFirst>(args, group, x);
    request_first(args, at, first);
  }
  arrive<kThreads + kGridFetching>(kReady);
  const unsigned layers = layers_of(at);
#pragma unroll 1
  for (int l = hidden(-1); l < kDepth; ++l) {
    if ((layers >> (l + 1) & 1) == 0) continue;
    float sums[4 * kRows] = {};
    if (kDirect && l == 0) {
      // Lest the compiler moves these sums, and the wait for their weights, to where nothing else
      // has begun: something that it does not move, and they depend on.
      const int nobody = args.state == nullptr ? 1 : 0;
      float here[kFirst * kTerms];
#pragma unroll
      for (int i = 0; i < kFirst * kTerms; ++i) here[i] = __shfl_xor_sync(~0U, x[i], nobody);
      add_up<kFirst * kGridTerms>(here, first, sums);
    } else {
      int chunks = 0;
      unsigned weights = 0;
      unsigned step = 0;
      const unsigned* from = words_of(args, at.launch, at.block % kShape.copies);
      if (l >= 0) {
        const GridStage& stage = table[l + 1];
        chunks = stage.chunks;
        weights = at.shared + stage.weights_at + at.thread * 16;
        step = stage.step;
        from += stage.input_at;
      }
      unsigned bits[kAll];
      if (!kDirect && l == 0) {
        float in[kAll];
        request_input<kPerThread>(args, group, in);
#pragma unroll
        for (int i = 0; i < kAll; ++i) bits[i] = ~__float_as_uint(in[i]);
      } else {
        look(from, group, chunks, bits);
      }
      if (l >= 0) wait_for_weights(at, l);
      float w[kPerThread * kGridTerms * 4];
      if constexpr (kEarly) {
#pragma unroll
        for (int i = 0; i < kPerThread * kGridTerms; ++i) {
          const int more = i / kGridTerms * (kThreads / kGridLanes);
          load_weights(weights + i % kGridTerms * step + more * kGridLanes * 16,
                       group + more < chunks, w + i * 4);
        }
      }
      while (l > 0 && !all_there(bits)) {
        look(from, group, chunks, bits);
      }
      float v[kAll];
#pragma unroll
      for (int i = 0; i < kAll; ++i) v[i] = __uint_as_float(~bits[i]);
      if constexpr (kEarly) {
        add_up<kPerThread * kGridTerms>(v, w, sums);
      } else {
#pragma unroll
        for (int i = 0; i < kPerThread * kGridTerms; ++i) {
          const int more = i / kGridTerms * (kThreads / kGridLanes);
          load_weights(weights + i % kGridTerms * step + more * kGridLanes * 16,
                       group + more < chunks, w);
          add_up<1>(v + i * kRows, w, sums);
        }
      }
    }
    int which = 0;
    bool keeps = true;
    add_lanes<4 * kRows, kWarp / 2>(sums, lane, which, keeps);
    const int own = at.thread % kGridLanes * 4 * kRows + which;
    if (keeps) store_shared(parts_of(at, l) + (at.thread / kWarp * kValues + own) * 4, sums[0]);
    arrive<kThreads + kWarp>(parts_barrier(l));
    if (l < 0) wait_for_all<kEverybody>(kPrepared);
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
      copy_async<4>(at.shared + (kLayout.biases_at + (l + 1) * kWarp + lane) * 4, from, inside);
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
    if (l < 0) end_group<0>();
  }
  if (lane == 0) args.state[at.block * kGridRecord] = at.launch + 1;
}

extern "C" __global__ void __launch_bounds__(kEverybody, 1)
    chain_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) float shared[];
  Where at{static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x),
           static_cast<unsigned>(hidden(static_cast<int>(shared_address(shared)))), 0};
  GridStage* const table = reinterpret_cast<GridStage*>(shared + kLayout.table_at);
  at.launch = load_word(args.state + at.block * kGridRecord);
  if (at.thread < kThreads) {
    multiply(args, at, table);
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
