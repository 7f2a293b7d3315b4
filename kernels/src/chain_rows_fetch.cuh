// What the kernels for many rows bring to shared memory, for chain_rows.cuh and chain_lines.cuh:
// weights and biases for the block, rows of the input for the warp. Everything is on its way before
// any of it is waited for.
#pragma once

namespace ai::kernels::chain {

constexpr int kThreads = kShape.warps * kWarp;
constexpr int kRows = kShape.rows;
constexpr RowsLayout kLayout = rows_layout_of(kLayers, kDepth, kShape);
constexpr int kStride = kLayout.stride;
constexpr int kStep = 8;  // terms of one turn of the innermost loop
template <int l>
constexpr Tiling kTiling = tiling_of(kLayers[l], kShape);
template <int l>
constexpr int kBiases = biases_of(kLayers[l], kShape);

/// Where those of layer l lie, among those of all.
template <int l>
constexpr int kBiasesAt = rows_layout_of(kLayers, l, kShape).biases;
template <int l>
constexpr int kWeightsAt = kLayout.weights_at + rows_layout_of(kLayers, l, kShape).weights;

constexpr bool is_cheap(ActKind act) {
  return act == ActKind::None || act == ActKind::ReLU || act == ActKind::LeakyReLU;
}

/// Whether results are computed row by row from sums in the tile, and stored at once: else in
/// registers, and Y is stored behind the next layer.
constexpr bool is_in_rows(int l) {
  return l + 1 == kDepth || kLayers[l].writes_z || !is_cheap(kLayers[l].act);
}
constexpr bool is_behind(int l) {
  return kLayers[l].writes_y && !is_in_rows(l);
}

/// Whether sums begin with the bias.
constexpr bool begins_with_bias(const Layer& layer) {
  return layer.has_bias && layer.bias_m == 0 && layer.alpha == 1.0F;
}

/// Whether the sums of layers `a` and `b` have one code.
constexpr bool is_alike(int a, int b) {
  const Layer& x = kLayers[a];
  const Layer& y = kLayers[b];
  return x.k == y.k && x.n == y.n && x.w_k == y.w_k && x.w_n == y.w_n && x.w16 == y.w16 &&
         biases_of(x, kShape) == biases_of(y, kShape) && begins_with_bias(x) == begins_with_bias(y);
}
/// Whether layers `a` and `b` are stored in the same way behind the next one.
constexpr bool is_stored_alike(int a, int b) {
  if (!is_behind(a) && !is_behind(b)) return true;
  return is_behind(a) == is_behind(b) && kLayers[a].y_m == kLayers[b].y_m &&
         kLayers[a].y16 == kLayers[b].y16;
}
/// Layers [begin, end) share one loop: the instructions of many would have to be fetched.
constexpr int end_of_stretch(int begin) {
  const int stored = begin > 0 ? begin - 1 : 0;
  int end = begin + 1;
  while (end < kDepth && is_alike(begin, end) && is_stored_alike(stored, end - 1)) ++end;
  return end;
}
/// Of these, [begin, end) have one code for their results, too.
constexpr int end_of_equals(int begin, int end) {
  const Layer& x = kLayers[begin];
  int l = begin + 1;
  for (; l < end; ++l) {
    const Layer& y = kLayers[l];
    const bool equal = is_in_rows(begin) == is_in_rows(l) && x.act == y.act && x.slope == y.slope &&
                       x.alpha == y.alpha && x.bias_m == y.bias_m && x.writes_y == y.writes_y &&
                       x.y_m == y.y_m && x.y16 == y.y16 && x.writes_z == y.writes_z &&
                       x.z_m == y.z_m && x.z16 == y.z16 &&
                       (l + 1 == kDepth) == (begin + 1 == kDepth);
    if (!equal) break;
  }
  return l;
}

struct Where {
  int thread;  // of the block
  int lane;
  int row;  // the warp's first
  int row_in_block;
  float* shared;
  float* values;  // the warp's tile: column c of its row r at [r * kStride + c]
};

/// Rows of the warp that there are; may be less than 0.
__device__ inline int rows_of(const Where& at) {
  return kInput.rows - at.row < kRows ? kInput.rows - at.row : kRows;
}

/// Copies `count` (1 or 4) elements to shared memory, those of them that are `there`; the rest
/// become zeros.
template <int count>
__device__ __forceinline__ void fetch(float* to, const float* from, int there) {
  copy<count>(shared_address(to), from, bytes_of<count>(there));
}

/// Element (k, n) to [k * columns + n]. Terms past the end are zeros, as their values are; what
/// columns past the end hold is left open, since what comes of them is dropped.
template <int l>
__device__ __forceinline__ void fetch_weights(const Where& at, const float* w, float* to) {
  constexpr Layer layer = kLayers[l];
  constexpr Tiling tiling = kTiling<l>;
  // Four terms of eight columns a warp: a compromise between the two memories.
  constexpr bool by_column = layer.w_n != 1;
  constexpr int kWide = !by_column && layer.w16 ? 4 : 1;
  constexpr unsigned kPieces = (layer.n + kWide - 1) / kWide;
  constexpr unsigned kCount = tiling.terms * kPieces;
  constexpr bool whole = tiling.terms == layer.k && layer.n % kWide == 0;
#pragma unroll 8
  for (int j = 0; j < (kCount + kThreads - 1) / kThreads; ++j) {
    const unsigned i = at.thread + j * kThreads;
    const int term = by_column ? i / (4 * kPieces) * 4 + i % 4 : i / kPieces;
    const int column = by_column ? i / 4 % kPieces : i % kPieces * kWide;
    if (kCount % kThreads == 0 || i < kCount) {
      // Where nothing is left to read the address is one that may be read all the same.
      const int left = whole || term < layer.k ? layer.n - column : 0;
      const float* const from = w + (left > 0 ? term * layer.w_k + column * layer.w_n : 0);
      fetch<kWide>(to + term * tiling.columns + column, from, whole ? kWide : left);
    }
  }
}

template <int l>
__device__ __forceinline__ void fetch_biases(const Arguments& args, const Where& at) {
  if constexpr (l < kDepth) {
    constexpr Layer layer = kLayers[l];
    constexpr bool by_row = layer.bias_m != 0;
    constexpr int kCount = !layer.has_bias ? 0 : by_row ? kRows * kShape.warps : layer.n;
    const int first = by_row ? at.row - at.row_in_block : 0;
    const int there = by_row ? kInput.rows - first : layer.n;
#pragma unroll
    for (int j = 0; j < (kCount + kThreads - 1) / kThreads; ++j) {
      const int i = at.thread + j * kThreads;
      if (i < kCount) {
        fetch<1>(at.shared + kBiasesAt<l> + i,
                 args.bias[l] + (first + i) * (by_row ? layer.bias_m : layer.bias_n), there - i);
      }
    }
    fetch_biases<l + 1>(args, at);
  }
}

/// The warp's rows. Neighbouring lanes take neighbouring elements.
__device__ __forceinline__ void fetch_input(const Arguments& args, const Where& at) {
  constexpr bool by_column = kInput.x_k != 1;
  constexpr int kWide = !by_column && kInput.x16 ? 4 : 1;
  constexpr unsigned kPieces = kTiling<0>.terms / kWide;
  constexpr unsigned kCount = kRows * kPieces;
  constexpr bool whole =
      kTiling<0>.terms == kLayers[0].k && kInput.rows % (kRows * kShape.warps) == 0;
#pragma unroll 8
  for (int j = 0; j < (kCount + kWarp - 1) / kWarp; ++j) {
    const unsigned i = at.lane + j * kWarp;
    const int row = by_column ? i % kRows : i / kPieces;
    const int term = by_column ? i / kRows : i % kPieces * kWide;
    if (kCount % kWarp == 0 || i < kCount) {
      const int left = whole || row < rows_of(at) ? kLayers[0].k - term : 0;
      const int element = left > 0 ? (at.row + row) * kInput.x_m + term * kInput.x_k : 0;
      fetch<kWide>(at.values + row * kStride + term, args.x + element, whole ? kWide : left);
    }
  }
}

/// Where the weights of layer l lie, which is in the stretch that begins with layer `begin`.
template <int begin>
__device__ __forceinline__ float* weights_at(const Where& at, int l) {
  constexpr int kWeights = kTiling<begin>.terms * kTiling<begin>.columns;
  if constexpr (kShape.streamed) {
    return at.shared + kLayout.weights_at + l % 2 * kLayout.weights;
  } else {
    return at.shared + kWeightsAt<begin> + (l - begin) * kWeights;
  }
}

/// The weights of layers 1 and on, those of layer 1 alone if streamed.
template <int begin>
__device__ __forceinline__ void fetch_further(const Arguments& args, const Where& at) {
  if constexpr (begin < (kShape.streamed && kDepth > 2 ? 2 : kDepth)) {
    constexpr int end = end_of_stretch(begin);
    constexpr int kUnroll = kRows == 1 ? 8 : 1;  // short loads: addresses are waited for together
#pragma unroll kUnroll
    for (int l = begin > 0 ? begin : 1; l < (kShape.streamed && end > 2 ? 2 : end); ++l) {
      fetch_weights<begin>(at, args.w[l], weights_at<begin>(at, l));
    }
    fetch_further<end>(args, at);
  }
}

/// Until the weights of layer l are there; streamed, those of the layer after it are requested,
/// to where those of the layer before it were.
template <int begin>
__device__ __forceinline__ void await_weights(const Arguments& args, const Where& at, int l) {
  if (kShape.streamed ? l > 0 : l == 1) {
    wait_for_groups<0>();
    __syncthreads();
    if constexpr (kShape.streamed) {
      constexpr int end = end_of_stretch(begin);
      if (l + 1 < end) {
        fetch_weights<begin>(at, args.w[l + 1], weights_at<begin>(at, l + 1));
      } else if constexpr (end < kDepth) {
        fetch_weights<end>(at, args.w[end], weights_at<end>(at, end));
      }
      end_group();
    }
  }
}

/// Where the thread works, with everything on its way and what layer 0 needs there.
__device__ __forceinline__ Where start(const Arguments& args, float* shared) {
  const unsigned thread = threadIdx.x;
  const int row_in_block = thread / kWarp * kRows;
  const Where at{static_cast<int>(thread),
                 static_cast<int>(thread % kWarp),
                 static_cast<int>(blockIdx.x) * kRows * kShape.warps + row_in_block,
                 row_in_block,
                 shared,
                 shared + kLayout.values_at + row_in_block * kStride};
  fetch_input(args, at);
  fetch_weights<0>(at, args.w[0], weights_at<0>(at, 0));
  fetch_biases<0>(args, at);
  end_group();
  fetch_further<0>(args, at);
  end_group();
  wait_for_groups<1>();
  __syncthreads();
  return at;
}

}  // namespace ai::kernels::chain
