#pragma once

#include "kernels/chain_layout.hpp"

/// How the grid kernel shares out its work: all blocks together take up to four rows through all
/// layers, every block eight columns of a layer. Compiled into the kernel, too.
namespace ai::kernels::chain {

struct GridShape {
  int blocks = 0;   ///< of the grid; all run at once
  int threads = 0;  ///< of a block that multiply; others fetch weights and send results
  int copies = 1;   ///< of what the blocks send each other, so that not all read one place
  int ahead = 0;    ///< slices of weights that a fetching thread has on their way; 0: any number
  /// Cycles from the end of a layer until a block looks for the input of the next one: whoever
  /// looks too early is in the way of what it looks for.
  int pause = 0;
};

inline constexpr int kGridColumns = 8;  ///< of a block: 32 bytes of a row of W
inline constexpr int kGridTerms = 4;    ///< of a thread, for four columns
inline constexpr int kGridLanes = 2;    ///< threads that have a block's columns between them
inline constexpr int kGridRows = 4;     ///< at most
inline constexpr int kGridFetching = 4 * kWarp;  ///< threads that fetch weights
inline constexpr int kGridPass = 1500;  ///< cycles that a layer of others takes, for such a pause
inline constexpr int kGridRecord = 8;   ///< words of a block's record of launches

constexpr int grid_threads(const GridShape& shape) {
  return shape.threads + kGridFetching + kWarp;
}

/// Rows as the kernel counts them: 1, 2 or 4.
constexpr int grid_rows(const Input& input) {
  return input.rows <= 2 ? input.rows : kGridRows;
}

constexpr int grid_blocks(const Layer& layer) {
  return (layer.n + kGridColumns - 1) / kGridColumns;
}

constexpr int grid_chunks(const Layer& layer) {
  return (layer.k + kGridTerms - 1) / kGridTerms;
}

/// Chunks of four terms that a thread has of a layer.
constexpr int grid_per_thread(const Layer& layer, const GridShape& shape) {
  const int groups = shape.threads / kGridLanes;
  return (grid_chunks(layer) + groups - 1) / groups;
}

/// Whether the first layer's weights go from memory to registers, past shared memory, and those of
/// the others from there to registers while the thread waits for their input. Else there are too
/// many of either.
constexpr bool grid_direct(const Layer* layers, const Input& input, const GridShape& shape) {
  return grid_per_thread(layers[0], shape) * grid_rows(input) <= 2;
}
constexpr bool grid_early(int per_thread, const Input& input) {
  return per_thread * grid_rows(input) <= 2;
}

/// What the kernel looks up of a layer; 16 words.
struct GridStage {
  int base = 0;        ///< the first block that has columns of it
  int blocks = 0;      ///< how many have
  int chunks = 0;      ///< of four terms
  int n = 0;           ///< columns in all
  int weights_at = 0;  ///< in shared memory, bytes
  int step = 0;        ///< bytes from one term of a chunk to the next
  int input_at = 0;    ///< words of its input, in one copy
  int output_at = 0;   ///< words of its output
  ActKind act = ActKind::None;
  float slope = 0;
  float alpha = 0;
  int writes = 0;  ///< 1: Y, 2: Z
  int y_m = 0;
  int z_m = 0;
  int unused[2] = {};
};

/// Where things lie. Shared memory in units of 4 bytes.
struct GridLayout {
  int per_thread = 1;  ///< chunks of a thread, of one layer at most
  int weights = 0;     ///< of all layers, but not of the first one if that is direct
  int table_at = 0;    ///< a stage for the run before the first layer, then one for each layer
  int parts_at = 0;    ///< sums of warps, in the same order
  int biases_at = 0;
  int barriers_at = 0;
  int shared = 0;
  int words = 0;  ///< that one copy of what is sent takes
};

constexpr int grid_weights(const Layer& layer) {
  return grid_chunks(layer) * kGridTerms * kGridColumns;
}

constexpr bool grid_goes_wide(const Layer& layer) {
  return layer.w16 && layer.w_n == 1 && layer.n % 4 == 0;
}

/// Layer `index`. Layers that need few blocks get different ones.
constexpr GridStage grid_stage(const Layer* layers, int index, const Input& input,
                               const GridShape& shape) {
  GridStage stage;
  const int first = grid_direct(layers, input, shape) ? 1 : 0;  // that has weights in memory
  int next = 0;
  for (int l = 0; l <= index; ++l) {
    stage.blocks = grid_blocks(layers[l]);
    stage.base = next + stage.blocks > shape.blocks ? 0 : next;
    next = stage.base + stage.blocks;
    if (l > first) stage.weights_at += 4 * grid_weights(layers[l - 1]);
    if (l == 0) continue;
    stage.input_at = stage.output_at;
    const int words = grid_blocks(layers[l - 1]) * kGridColumns * grid_rows(input);
    stage.output_at += round_up(words, kWarp);
  }
  const Layer& layer = layers[index];
  stage.chunks = grid_chunks(layer);
  stage.n = layer.n;
  stage.step = stage.chunks * kGridLanes * 16;
  stage.act = layer.act;
  stage.slope = layer.slope;
  stage.alpha = layer.alpha;
  stage.writes = (layer.writes_y ? 1 : 0) + (layer.writes_z ? 2 : 0);
  stage.y_m = layer.y_m;
  stage.z_m = layer.z_m;
  return stage;
}

constexpr GridLayout grid_layout(const Layer* layers, int depth, const Input& input,
                                 const GridShape& shape) {
  GridLayout layout;
  const int first = grid_direct(layers, input, shape) ? 1 : 0;
  const int values = kGridColumns * grid_rows(input);
  for (int l = 0; l < depth; ++l) {
    const int per_thread = grid_per_thread(layers[l], shape);
    if (per_thread > layout.per_thread) layout.per_thread = per_thread;
    if (l >= first) layout.weights += grid_weights(layers[l]);
    if (l + 1 < depth) layout.words += round_up(grid_blocks(layers[l]) * values, kWarp);
  }
  layout.table_at = layout.weights;
  layout.parts_at = layout.table_at + (depth + 1) * static_cast<int>(sizeof(GridStage)) / 4;
  layout.biases_at = layout.parts_at + (depth + 1) * shape.threads / kWarp * values;
  layout.barriers_at = layout.biases_at + (depth + 1) * kWarp;
  layout.shared = layout.barriers_at + 2 * depth;
  return layout;
}

}  // namespace ai::kernels::chain
