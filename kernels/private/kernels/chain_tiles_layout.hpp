#pragma once

#include "kernels/chain_layout.hpp"

/// How the tiles kernel shares out its work: rows are cut into groups, each taken through all
/// layers by blocks of its own; every block computes a tile of each layer, whose terms its warps
/// share out. Compiled by the host, and at run time into the kernel.
namespace ai::kernels::chain {

struct TilesShape {
  int group = 32;     ///< rows; 16, 32, 64 or 128
  int members = 32;   ///< blocks of a group
  int chunk = 32;     ///< terms that a warp fetches at a time; 16 or 32
  int slots = 2;      ///< chunks of inputs that a warp has room for
  int ahead = 4;      ///< chunks of weights that a warp has room for; as many as slots or more
  bool tall = false;  ///< tiles have rather many rows than many columns
};

inline constexpr int kTilesWarps = 8;
inline constexpr int kTilesThreads = kTilesWarps * kWarp;
inline constexpr int kTilesSide = 8;  ///< of the square of a tile that a thread adds up

/// What a block has of one layer at a time.
struct Tile {
  int rows = 0;
  int columns = 0;
  int slices = 0;  ///< of the terms, within a warp
  int chunk = 0;   ///< terms
  int stride = 0;  ///< from row to row of a chunk of inputs in shared memory; no bank conflicts
  int terms = 0;   ///< of a warp, zeros past the end included
  int chunks = 0;  ///< of a warp
  int across = 0;  ///< tiles side by side in a layer
  int down = 0;    ///< and one above the other in a group
  int rounds = 0;  ///< tiles of a block, one after another
};

constexpr int div_up(int value, int by) {
  return (value + by - 1) / by;
}

constexpr Tile tile_of(const Layer& layer, const TilesShape& shape, int rows, int columns) {
  Tile tile;
  tile.rows = rows;
  tile.columns = columns;
  tile.slices = kWarp * kTilesSide * kTilesSide / (rows * columns);
  tile.chunk = shape.chunk > 4 * tile.slices ? shape.chunk : 4 * tile.slices;
  int quads = tile.chunk / 4;
  while (tile.slices < 8 && quads % (2 * tile.slices) != tile.slices) ++quads;
  tile.stride = 4 * quads;
  tile.terms = round_up(div_up(layer.k, kTilesWarps), tile.chunk);
  tile.chunks = tile.terms / tile.chunk;
  tile.across = div_up(layer.n, columns);
  tile.down = shape.group / rows;
  tile.rounds = div_up(tile.across * tile.down, shape.members);
  return tile;
}

/// Cycles of a tile, about: products at what was reached of a multiprocessor's 128 a cycle; bytes
/// of L2, those of inputs (which are late) counted more; and sums over warps.
constexpr long long cost_of(const Tile& tile, bool tall) {
  const long long terms = static_cast<long long>(tile.terms) * kTilesWarps;
  const long long products = terms * tile.rows * tile.columns / 90;
  const long long bytes =
      terms * (tall ? 2 * tile.rows + 3 * tile.columns : 3 * tile.rows + 2 * tile.columns) / 60;
  return tile.rounds * (products + bytes + 2000);
}

struct Side {
  int rows;
  int columns;
};
inline constexpr Side kTiles[] = {{64, 32}, {32, 64}, {64, 16}, {32, 32},
                                  {16, 64}, {16, 32}, {32, 16}, {16, 16}};

/// The tile of a layer that costs least.
constexpr Tile tile_of(const Layer& layer, const TilesShape& shape) {
  Tile best;
  for (const Side& side : kTiles) {
    if (side.rows > shape.group) continue;
    const Tile tile = tile_of(layer, shape, side.rows, side.columns);
    if (best.rows == 0 || cost_of(tile, shape.tall) < cost_of(best, shape.tall)) best = tile;
  }
  return best;
}

/// Whether the last layer has so few columns that a warp takes a row, without a tile.
constexpr bool is_narrow(const Layer* layers, int count) {
  const Layer& last = layers[count - 1];
  return count > 1 && last.n <= 2 && last.k <= 1024;
}

/// Layers that are computed by tiles.
constexpr int tiled_of(const Layer* layers, int count) {
  return is_narrow(layers, count) ? count - 1 : count;
}

constexpr int groups_of(const Input& input, const TilesShape& shape) {
  return div_up(input.rows, shape.group);
}

/// From row to row of what a layer passes on to the next one: whole units of 16 bytes.
constexpr int pass_stride(const Layer& layer) {
  return round_up(layer.n, 4);
}

/// Elements that the first `count` layers pass on.
constexpr long long passed(const Input& input, const Layer* layers, int count) {
  long long sum = 0;
  for (int l = 0; l < count; ++l)
    sum += static_cast<long long>(input.rows) * pass_stride(layers[l]);
  return sum;
}

/// State memory, in elements of 4 bytes: how often each block was launched, then two sets of what
/// layers pass on.
constexpr long long set_at(const Input& input, const Layer* layers, int count,
                           const TilesShape& shape, int set) {
  const int counts = round_up(groups_of(input, shape) * shape.members, kWarp);
  return counts + set * passed(input, layers, count - 1);
}

/// Where things lie in a warp's part of shared memory, in elements of 4 bytes.
struct TilesLayout {
  int inputs = 0;      ///< of a chunk
  int weights = 0;     ///< of a chunk
  int weights_at = 0;  ///< of all warps, after inputs of all warps
  int region = 0;      ///< of a warp, for its inputs and then for its sums
  int shared = 0;      ///< of the block, in all
};

constexpr TilesLayout tiles_layout(const Layer* layers, int count, const TilesShape& shape) {
  TilesLayout layout;
  int sums = 0;
  for (int l = 0; l < tiled_of(layers, count); ++l) {
    const Tile tile = tile_of(layers[l], shape);
    if (tile.rows * tile.stride > layout.inputs) layout.inputs = tile.rows * tile.stride;
    if (tile.chunk * tile.columns > layout.weights) layout.weights = tile.chunk * tile.columns;
    if (tile.rows * tile.columns > sums) sums = tile.rows * tile.columns;
  }
  layout.region = shape.slots * layout.inputs;
  if (layout.region < sums) layout.region = sums;
  layout.weights_at = kTilesWarps * layout.region;
  layout.shared = layout.weights_at + kTilesWarps * shape.ahead * layout.weights;
  return layout;
}

}  // namespace ai::kernels::chain
