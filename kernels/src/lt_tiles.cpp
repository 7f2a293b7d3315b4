#include <algorithm>
#include <limits>

#include "kernels/product.hpp"

namespace ai::kernels {
namespace {

struct Extent {
  std::int64_t m, n, k;
};

/// How many rows of a matrix with this leading dimension fit. A single row always does: it is as
/// long as its columns.
std::int64_t rows_within(const MatrixView& view, std::int64_t max_span) noexcept {
  return std::max<std::int64_t>(1, max_span / std::max<std::int64_t>(1, view.ld));
}

/// The largest part that fits. Columns are bound first, since they bound a single row.
Extent largest_tile(const Product& p, std::int64_t max_span) noexcept {
  Extent tile = {std::min(p.m(), max_span), std::min(p.n(), max_span), std::min(p.k(), max_span)};
  tile.m = std::min(tile.m, rows_within(p.d, max_span));
  if (p.beta != 0.0F) tile.m = std::min(tile.m, rows_within(p.c, max_span));
  std::int64_t& l_rows = p.trans_l ? tile.k : tile.m;
  l_rows = std::min(l_rows, rows_within(p.l, max_span));
  std::int64_t& r_rows = p.trans_r ? tile.n : tile.k;
  r_rows = std::min(r_rows, rows_within(p.r, max_span));
  return tile;
}

/// Equal parts rather than a rest of one row, in multiples of 64 where that still fits.
std::int64_t balanced(std::int64_t extent, std::int64_t most) noexcept {
  const std::int64_t parts = (extent + most - 1) / most;
  const std::int64_t part = (extent + parts - 1) / parts;
  return std::min(most, (part + 63) / 64 * 64);
}

/// The parts that tiles_of makes.
Extent tile_of(const Product& p, std::int64_t max_span) noexcept {
  const Extent most = largest_tile(p, max_span);
  return {balanced(p.m(), most.m), balanced(p.n(), most.n), balanced(p.k(), most.k)};
}

std::int64_t times(std::int64_t count, std::int64_t extent, std::int64_t part) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t parts = extent / part + (extent % part != 0 ? 1 : 0);
  return count > kMost / parts ? kMost : count * parts;
}

MatrixView part_of(const MatrixView& view, std::int64_t row, std::int64_t col, std::int64_t rows,
                   std::int64_t cols) noexcept {
  return {view.data + row * view.ld + col, rows, cols, rows == 1 ? cols : view.ld};
}

}  // namespace

bool within_span(const Product& product, std::int64_t max_span) noexcept {
  const Extent tile = largest_tile(product, max_span);
  return tile.m == product.m() && tile.n == product.n() && tile.k == product.k();
}

std::int64_t tile_count(const Product& product, std::int64_t max_span) noexcept {
  if (within_span(product, max_span)) return 1;
  const Extent tile = tile_of(product, max_span);
  return times(times(times(1, product.m(), tile.m), product.n(), tile.n), product.k(), tile.k);
}

std::vector<Product> tiles_of(const Product& product, std::int64_t max_span) {
  if (within_span(product, max_span)) return {product};
  const Extent tile = tile_of(product, max_span);
  std::vector<Product> tiles;
  for (std::int64_t i = 0; i < product.m(); i += tile.m) {
    const std::int64_t m = std::min(tile.m, product.m() - i);
    for (std::int64_t j = 0; j < product.n(); j += tile.n) {
      const std::int64_t n = std::min(tile.n, product.n() - j);
      for (std::int64_t s = 0; s < product.k(); s += tile.k) {
        const std::int64_t k = std::min(tile.k, product.k() - s);
        Product part = product;
        part.d = part_of(product.d, i, j, m, n);
        part.l = product.trans_l ? part_of(product.l, s, i, k, m) : part_of(product.l, i, s, m, k);
        part.r = product.trans_r ? part_of(product.r, j, s, n, k) : part_of(product.r, s, j, k, n);
        if (product.beta != 0.0F) part.c = part_of(product.c, i, j, m, n);
        if (s > 0) {
          part.c = part.d;
          part.beta = 1.0F;
        }
        tiles.push_back(part);
      }
    }
  }
  return tiles;
}

}  // namespace ai::kernels
