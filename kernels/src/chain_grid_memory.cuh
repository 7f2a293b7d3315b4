// What the grid kernel works with: its arguments, sizes and instructions.
#pragma once

namespace ai::kernels::chain {

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

/// From the block's first layer on nobody is two layers ahead of another thread: a few barriers are
/// enough. The run before it, whose input comes from nobody, has one of its own.
__device__ __forceinline__ int parts_barrier(int l) {
  return l < 0 ? 9 : 1 + l % 8;
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

__device__ __forceinline__ unsigned load_word(const unsigned* from) {
  unsigned v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
  return v;
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

__device__ __forceinline__ unsigned cycles() {
  unsigned v;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(v)::"memory");
  return v;
}

/// No longer than that, whatever becomes of the clock meanwhile.
__device__ __forceinline__ void wait_since(unsigned begin, unsigned wait) {
  while (cycles() - begin < wait) continue;
}

/// A number that the compiler knows nothing about.
__device__ __forceinline__ int hidden(int value) {
  asm volatile("mov.s32 %0, %0;" : "+r"(value));
  return value;
}

}  // namespace ai::kernels::chain
