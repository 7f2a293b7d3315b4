// The warps of the grid kernel that fetch weights, and those that multiply.
#pragma once

#include "kernels/chain_grid_memory.cuh"

namespace ai::kernels::chain {

/// No more slices on their way than the shape allows.
__device__ __forceinline__ void end_slice() {
  if constexpr (kShape.ahead > 0) {
    end_group();
    wait_for_groups<kShape.ahead>();
  }
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
            copy<4>(to + u * stage.step, inside ? from + u * layer.w_k : args.w[l],
                    inside ? 16 : 0);
          } else {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const bool inside = row && column + j < layer.n;
              const float* const here = from + (u * layer.w_k + j * layer.w_n);
              copy<1>(to + u * stage.step + 4 * j, inside ? here : args.w[l], inside ? 4 : 0);
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

// A warp has kGroups chunks side by side, and each of them for kGridLanes threads. It asks for them
// once, 16 bytes a lane, and the lanes then hand them to each other.
constexpr int kGroups = kWarp / kGridLanes;
constexpr int kPieces = (kGroups * kRows + kWarp - 1) / kWarp;  // of a lane, for a chunk
constexpr int kWords = kPerThread * kPieces * 4;

/// Words of layer input `from` on; all ones where there are no chunks.
__device__ __forceinline__ void look(const unsigned* from, const Where& at, int chunks,
                                     unsigned* bits) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int first = at.thread / kWarp * kGroups + i * (kThreads / kGridLanes);
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int piece = at.thread % kWarp + p * kWarp;
      unsigned* const v = bits + (i * kPieces + p) * 4;
      v[0] = v[1] = v[2] = v[3] = ~0U;
      if (piece < kGroups * kRows && first + piece / kRows < chunks)
        load_words(from + first * kTerms + piece * 4, v);
    }
  }
}

__device__ __forceinline__ bool all_there(const unsigned* bits) {
  bool there = true;
#pragma unroll
  for (int i = 0; i < kWords; ++i) there = there && bits[i] != 0;
  return there;
}

/// The values of the thread's own chunks.
__device__ __forceinline__ void hand_over(const unsigned* bits, int lane, float* v) {
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int piece = lane / kGridLanes * kRows + r;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        unsigned mine = 0;
#pragma unroll
        for (int p = 0; p < kPieces; ++p) {
          const unsigned theirs = __shfl_sync(~0U, bits[(i * kPieces + p) * 4 + q], piece % kWarp);
          if (piece / kWarp == p) mine = theirs;
        }
        v[i * kTerms + r * 4 + q] = __uint_as_float(~mine);
      }
    }
  }
}

/// The network's input, for `chunks` chunks.
template <int chunks>
__device__ __forceinline__ void request_input(const Arguments& args, int group, float* x) {
#pragma unroll
  for (int i = 0; i < chunks * kTerms; ++i) {
    if constexpr (kInput.x16 && kInput.x_k == 1 && kRows == 1 && kLayers[0].k % 4 == 0) {
      const int chunk = group + i / kTerms * (kThreads / kGridLanes);
      if (i % kTerms != 0) continue;
      x[i] = x[i + 1] = x[i + 2] = x[i + 3] = 0.0F;
      if (chunk < kStage<0>.chunks) load_plain4(args.x + chunk * kGridTerms, x + i);
      continue;
    }
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
                                         const GridStage* table, const float* x,
                                         const float* first) {
  const int group = at.thread / kGridLanes;
  const int lane = at.thread % kWarp;
  arrive<kThreads + kGridFetching>(kReady);
  const unsigned layers = layers_of(at);
  unsigned since = 0;
  int last = 0;
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
      float v[kAll];
      if (!kDirect && l == 0) request_input<kPerThread>(args, group, v);
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
      if (kDirect || l != 0) {
        if (l > 0) wait_since(since, kShape.pause + (l - last - 1) * kGridPass);
        unsigned bits[kWords];
        do {
          look(from, at, chunks, bits);
        } while (l > 0 && !all_there(bits));
        hand_over(bits, lane, v);
      }
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
    since = cycles();
    last = l;
    if (l < 0) wait_for_all<kEverybody>(kPrepared);
  }
}

}  // namespace ai::kernels::chain
