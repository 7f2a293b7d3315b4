// The warps of the grid kernel that fetch weights, and those that multiply.
#pragma once

#include "kernels/chain_grid_memory.cuh"

namespace ai::kernels::chain {

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

}  // namespace ai::kernels::chain
