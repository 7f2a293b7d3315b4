#pragma once

#include "kernels/chain_layout.hpp"

/// How the kernels for many rows share out their work: every block has the weights in its shared
/// memory, every warp takes rows of its own through all layers. Compiled as chain_layout.hpp is.
namespace ai::kernels::chain {

struct RowsShape {
  int rows = 32;  ///< of a warp: 32, 16 or 8; or 1, which a kernel of its own serves
  int warps = 4;  ///< of a block
  /// The weights of two layers take turns in shared memory; else those of all layers are there.
  bool streamed = false;
};

/// Columns of a layer at most: a thread has the sums of all rows and columns that it serves in
/// registers.
constexpr int most_columns(const RowsShape& shape) {
  return shape.rows == 32 ? 96 : 128;
}

/// What a warp does of a layer: its lanes are column_groups x row_groups; each has `rows` rows and
/// `vectors` times four columns (of one row: `vectors` columns).
struct Tiling {
  int terms = 0;    ///< those past the end, which are zeros, included
  int columns = 0;  ///< likewise
  int column_groups = 0;
  int vectors = 0;
  int row_groups = 0;
  int rows = 0;
};

constexpr Tiling tiling_of(const Layer& layer, const RowsShape& shape) {
  Tiling tiling;
  if (shape.rows == 1) {
    const int vectors = (layer.n + kWarp - 1) / kWarp;
    return {round_up(layer.k, 4), vectors * kWarp, kWarp, vectors, 1, 1};
  }
  tiling.terms = round_up(layer.k, 8);
  tiling.column_groups = kWarp / shape.rows > 2 ? kWarp / shape.rows : 2;
  while (tiling.column_groups < 8 && 4 * tiling.column_groups < layer.n) tiling.column_groups *= 2;
  const int columns = 4 * tiling.column_groups;
  tiling.vectors = (layer.n + columns - 1) / columns;
  tiling.columns = tiling.vectors * columns;
  tiling.row_groups = kWarp / tiling.column_groups;
  tiling.rows = shape.rows / tiling.row_groups;
  return tiling;
}

/// Elements of shared memory for the biases of a layer: one a column, or one a row of the block.
constexpr int biases_of(const Layer& layer, const RowsShape& shape) {
  if (!layer.has_bias) return 0;
  const int rows = round_up(shape.rows * shape.warps, 4);
  return layer.bias_m != 0 ? rows : tiling_of(layer, shape).columns;
}

/// Where things lie in shared memory, in elements of 4 bytes.
struct RowsLayout {
  int biases = 0;   ///< of all layers; they come first
  int weights = 0;  ///< of all layers, or, streamed, of one at most; there are two then
  int stride = 0;   ///< from row to row of the values
  int weights_at = 0;
  int values_at = 0;
  int shared = 0;  ///< elements in all
};

/// What the first `count` layers take.
constexpr RowsLayout rows_layout_of(const Layer* layers, int count, const RowsShape& shape) {
  RowsLayout sum;
  int widest = 0;
  for (int l = 0; l < count; ++l) {
    const Tiling tiling = tiling_of(layers[l], shape);
    const int weights = tiling.terms * tiling.columns;
    sum.biases += biases_of(layers[l], shape);
    if (!shape.streamed) {
      sum.weights += weights;
    } else if (weights > sum.weights) {
      sum.weights = weights;
    }
    if (l == 0) widest = tiling.terms;
    if (tiling.columns > widest) widest = tiling.columns;
  }
  sum.stride = widest + 4;  // 4 more than a multiple of 8: rows begin in different banks
  sum.weights_at = sum.biases;
  sum.values_at = sum.weights_at + (shape.streamed ? 2 : 1) * sum.weights;
  sum.shared = sum.values_at + shape.rows * shape.warps * sum.stride;
  return sum;
}

}  // namespace ai::kernels::chain
