#pragma once

#include "ai/activation.hpp"

/// How a chain kernel shares out its work: a whole network forward in one launch, compiled for one
/// network. Compiled by the host, which chooses a shape, and at run time into the kernel itself; it
/// therefore includes nothing but activation.hpp.
namespace ai::kernels::chain {

/// One layer: Y = act(Z), Z = alpha * X W + bias. Strides are in elements; element (k, n) of W is
/// at w[k * w_k + n * w_n], so that a transposed W is a matter of strides. The bias of column n and
/// row m is at bias[m * bias_m + n * bias_n], 0 along an axis over which it is spread.
struct Layer {
  int k = 0;
  int n = 0;
  int w_k = 0;
  int w_n = 0;
  ActKind act = ActKind::None;
  float slope = 0;
  float alpha = 1;
  bool has_bias = false;
  int bias_m = 0;
  int bias_n = 0;
  bool writes_y = false;
  int y_m = 0;  ///< from row to row of Y; its columns are side by side
  bool writes_z = false;
  int z_m = 0;
  /// Whether W, Y and Z may be accessed 16 bytes at a time: they and their rows (columns of W,
  /// where it is transposed) begin at multiples of 16 bytes.
  bool w16 = false;
  bool y16 = false;
  bool z16 = false;
};

/// The rows of the network's input, and its strides.
struct Input {
  int rows = 0;
  int x_m = 0;
  int x_k = 0;
  bool x16 = false;  ///< as Layer::w16
};

/// A cluster of blocks takes `slab` rows through all layers: every block some columns of each
/// layer, every thread some terms of the sums of some of these columns.
struct Shape {
  int slab = 1;     ///< 1, 2, 4 or 8
  int cluster = 1;  ///< blocks; 1: no cluster
  int threads = 0;  ///< of a block; whole warps
  int columns = 1;  ///< that a thread serves at least, where a block has that many
  /// A block's results go through its shared memory before they are sent, each computed once. Else
  /// groups of threads each compute all of them and send them to one block: quicker for few.
  bool staged = false;
  /// Weights that a thread requests ahead, at least those of one layer; 0: all before it begins.
  int window = 0;
};

inline constexpr int kWarp = 32;

constexpr int round_up(int value, int step) {
  return (value + step - 1) / step * step;
}

/// Terms whose values of all rows of the slab fill 16 bytes or more.
constexpr int run_of(const Shape& shape) {
  return shape.slab >= 4 ? 1 : 4 / shape.slab;
}

/// What a block has of one layer.
struct Share {
  int columns = 0;     ///< of the layer, in one block
  int lanes = 0;       ///< threads side by side, for neighbouring columns
  int per_thread = 0;  ///< columns of a thread, `lanes` apart
  int groups = 0;      ///< of `lanes` threads; they share out the terms
  int terms = 0;       ///< of a thread
  int padded_k = 0;    ///< terms, zeros past the end included
  int parts = 0;       ///< partial sums of a column that go through shared memory
};

constexpr Share share_of(const Layer& layer, const Shape& shape) {
  Share share;
  share.columns = (layer.n + shape.cluster - 1) / shape.cluster;
  const int wanted = (share.columns + shape.columns - 1) / shape.columns;
  share.lanes = round_up(wanted, kWarp);
  if (wanted <= kWarp) {
    share.lanes = 1;
    while (share.lanes < wanted) share.lanes *= 2;
  }
  if (share.lanes > shape.threads) share.lanes = shape.threads;
  share.per_thread = (share.columns + share.lanes - 1) / share.lanes;
  share.groups = shape.threads / share.lanes;
  share.terms = round_up((layer.k + share.groups - 1) / share.groups, run_of(shape));
  share.padded_k = share.terms * share.groups;
  share.parts = share.lanes < kWarp ? shape.threads / kWarp : share.groups;
  return share;
}

/// Where things lie: weights in a thread's registers, the rest in a block's shared memory, in
/// elements of 4 bytes.
struct Layout {
  int weights = 0;  ///< of a thread, of all layers
  int registers =
      0;           ///< of a thread, for what it fetches: its weights, and inputs and biases for all
  int inputs = 0;  ///< of all layers
  int parts = 0;   ///< of one layer at most; there are two
  int staged = 0;  ///< results of one layer at most
  int biases = 0;  ///< of all layers
  int parts_at = 0;
  int staged_at = 0;
  int biases_at = 0;
  int barriers_at = 0;
  int shared = 0;  ///< elements in all
};

/// Registers that a kernel of so many layers may take beside Layout::registers, for addresses and
/// for sums that are on their way: as many as CUDA 13.0's compiler was seen to use.
constexpr int other_registers(int layers) {
  return 36 + 5 * (layers < 4 ? layers : 4);
}

constexpr int weights_of(const Layer& layer, const Shape& shape) {
  const Share share = share_of(layer, shape);
  return share.terms * share.per_thread;
}

/// How many of the layers a thread has requested its weights of when it has done with the first
/// `done`.
constexpr int requested(const Layer* layers, int count, const Shape& shape, int done) {
  int held = 0;
  int layer = done;
  for (; layer < count; ++layer) {
    held += weights_of(layers[layer], shape);
    if (shape.window > 0 && held > shape.window && layer > done) break;
  }
  return layer;
}

/// Weights of a thread that it has requested and still needs, at most.
constexpr int most_held(const Layer* layers, int count, const Shape& shape) {
  int most = 0;
  for (int done = 0; done < count; ++done) {
    int held = 0;
    const int end = requested(layers, count, shape, done);
    for (int layer = done; layer < end; ++layer) held += weights_of(layers[layer], shape);
    if (held > most) most = held;
  }
  return most;
}

/// What the first `count` layers take.
constexpr Layout layout_of(const Layer* layers, int count, const Shape& shape) {
  Layout sum;
  for (int l = 0; l < count; ++l) {
    const Share share = share_of(layers[l], shape);
    sum.weights += weights_of(layers[l], shape);
    sum.inputs += share.padded_k * shape.slab;
    const int parts = share.parts * share.lanes * share.per_thread * shape.slab;
    if (parts > sum.parts) sum.parts = parts;
    const int results = round_up(share.columns * shape.slab, 4);
    if (shape.staged && shape.cluster > 1 && results > sum.staged) sum.staged = results;
    if (layers[l].has_bias) {
      const int biases = layers[l].bias_n == 0 ? shape.slab : share.columns;
      sum.biases += biases;
      sum.registers += (biases + shape.threads - 1) / shape.threads;
    }
    if (l == 0) sum.registers += (layers[l].k * shape.slab + shape.threads - 1) / shape.threads;
  }
  sum.registers += most_held(layers, count, shape);
  sum.parts_at = sum.inputs;
  sum.staged_at = round_up(sum.parts_at + 2 * sum.parts, 4);
  sum.biases_at = sum.staged_at + sum.staged;
  sum.barriers_at = round_up(sum.biases_at + sum.biases, 2);
  sum.shared = sum.barriers_at + 2 * count;
  return sum;
}

}  // namespace ai::kernels::chain
