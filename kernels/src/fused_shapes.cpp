#include <algorithm>

#include "fused.hpp"

namespace ai::kernels {
namespace {

constexpr std::int64_t kWideBlocks = 128;  ///< about what it takes to keep a GPU busy

constexpr std::int64_t parts_of(std::int64_t extent, std::int64_t part) noexcept {
  return (extent + part - 1) / part;
}

/// A view and how far apart the elements of op(view) are from row to row and from column to column.
struct Operand {
  float* data;
  std::int64_t row;
  std::int64_t column;
};
Operand operand(const MatrixView& view, bool transposed) noexcept {
  return transposed ? Operand{view.data, 1, view.ld} : Operand{view.data, view.ld, 1};
}
Operand turned(const Operand& operand) noexcept {
  return {operand.data, operand.column, operand.row};
}

/// The problem as the kernels see it.
struct Problem {
  FusedExtents extents;
  Operand l;
  Operand r;
};
Problem problem_of(const Product& product, const FusedExtents& extents) noexcept {
  const Operand l = operand(product.l, product.trans_l);
  const Operand r = operand(product.r, product.trans_r);
  if (extents.turned) return {extents, turned(r), turned(l)};
  return {extents, l, r};
}
Problem problem_of(const Product& product) noexcept {
  return problem_of(product, fused_extents(product));
}

bool in_fours(const void* data) noexcept {
  return alignment_of(data) >= sizeof(float) * kFusedPatch;
}
bool in_fours(std::int64_t extent) noexcept {
  return extent % kFusedPatch == 0;
}

bool is_along_n(const Problem& p) noexcept {
  return p.r.column == 1 && in_fours(p.extents.n) && (p.extents.k == 1 || in_fours(p.r.row));
}
bool is_along_k(const Problem& p) noexcept {
  return p.r.row == 1 && in_fours(p.extents.k) && (p.extents.n == 1 || in_fours(p.r.column));
}
FusedLoads loads_if_aligned(const Problem& p) noexcept {
  if (is_along_n(p)) return FusedLoads::AlongN;
  return is_along_k(p) ? FusedLoads::AlongK : FusedLoads::Single;
}
bool l_in_fours(const Problem& p) noexcept {
  return in_fours(p.l.data) && p.l.column == 1 && in_fours(p.extents.k) &&
         (p.extents.m == 1 || in_fours(p.l.row));
}

/// 1, 2, 4 or 8, not less than `count`.
int padded(std::int64_t count) noexcept {
  int result = 1;
  while (result < count) result *= 2;
  return result;
}

FusedTarget target(const MatrixView& view, bool is_turned) noexcept {
  const auto step = static_cast<std::uint32_t>(view.ld);
  return is_turned ? FusedTarget{view.data, 1, step} : FusedTarget{view.data, step, 1};
}

FusedArguments arguments_of(const FusedCall& call, const Problem& p) noexcept {
  const auto u32 = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const bool is_turned = p.extents.turned;
  FusedArguments args = {};
  args.l = p.l.data;
  args.r = p.r.data;
  args.bias = call.bias.data;
  if (call.product.beta != 0.0F) args.c = target(call.product.c, is_turned);
  args.z = target(call.z, is_turned);
  args.y = target(call.product.d, is_turned);
  args.m = u32(p.extents.m);
  args.n = u32(p.extents.n);
  args.k = u32(p.extents.k);
  args.l_m = u32(p.l.row);
  args.l_k = u32(p.l.column);
  args.r_k = u32(p.r.row);
  args.r_n = u32(p.r.column);
  const BiasKind along_rows = is_turned ? BiasKind::PerN : BiasKind::PerM;
  if (call.bias_kind != BiasKind::None && call.bias_kind != BiasKind::Scalar) {
    (call.bias_kind == along_rows ? args.bias_row : args.bias_column) = u32(call.bias.stride);
  }
  args.alpha = call.product.alpha;
  args.beta = call.product.beta;
  args.slope = call.slope;
  args.wide_l = l_in_fours(p) ? 1 : 0;
  return args;
}

/// Threads that each take one patch, where a block may have so many.
int threads_for(const FusedExtents& e, int lanes_log2, int most) noexcept {
  const std::int64_t wanted = parts_of(e.k, kFusedPatch) << lanes_log2;
  if (e.m == 1 && (wanted <= 32 || most == 32)) return 32;
  const std::int64_t finish = std::int64_t{padded(e.m)} * kFusedPatch << lanes_log2;
  const std::int64_t threads = std::max(std::min<std::int64_t>(wanted, most), finish);
  return static_cast<int>(parts_of(threads, 128) * 128);
}

}  // namespace

FusedExtents fused_extents(const Product& product) noexcept {
  const std::int64_t m = product.m();
  const std::int64_t n = product.n();
  if (m > kFusedMost && n <= kFusedMost) return {n, m, product.k(), true};
  return {m, n, product.k(), false};
}

std::vector<FusedShape> fused_shapes(const Product& product) {
  const Problem p = problem_of(product);
  const FusedExtents& e = p.extents;
  std::vector<FusedShape> shapes;
  const auto add = [&](int lanes_log2, int most) {
    const FusedShape shape = {lanes_log2, threads_for(e, lanes_log2, most)};
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
  };
  // Neighbours along k leave a warp to few columns. Along n, 8 columns are what memory delivers at
  // once; 32 are a whole line, where that still gives every multiprocessor a block.
  const bool down_k = p.r.row == 1 && (p.r.column != 1 || e.n < kFusedPatch);
  const bool is_narrow = e.m == 1 && (down_k ? e.k >= 128 : e.n <= kFusedPatch);
  const bool is_wide = !down_k && parts_of(e.n, 32) >= kWideBlocks;
  const int first = is_wide ? 3 : is_narrow ? 0 : 1;
  add(first, kFusedMostThreads);
  if (first == 3) {
    add(1, kFusedMostThreads);
  } else if (e.m == 1 && e.n > kFusedPatch) {
    add(1 - first, kFusedMostThreads);
  }
  const int threads = shapes.front().threads;
  if (threads > 128 || (threads == 128 && e.m == 1)) add(first, threads == 128 ? 32 : threads / 2);
  return shapes;
}

std::int64_t fused_blocks(const Product& product, const FusedShape& shape) noexcept {
  return parts_of(fused_extents(product).n, std::int64_t{kFusedPatch} << shape.lanes_log2);
}

std::int64_t fused_rounds(const Product& product, const FusedShape& shape) noexcept {
  return parts_of(product.k(), std::int64_t{kFusedPatch} * (shape.threads >> shape.lanes_log2));
}

FusedLaunch fused_launch(const FusedCall& call, const FusedShape& shape) noexcept {
  const Problem p = problem_of(call.product);
  FusedLaunch launch;
  launch.arguments = arguments_of(call, p);
  const FusedLoads loads = in_fours(p.r.data) ? loads_if_aligned(p) : FusedLoads::Single;
  launch.form = {padded(p.extents.m), loads, shape.lanes_log2};
  launch.grid = {fused_blocks(call.product, shape), shape.threads, 0};
  return launch;
}

FusedLoads fused_best_loads(const Product& product) noexcept {
  return loads_if_aligned(problem_of(product));
}

FusedLaunch outer_launch(const FusedCall& call) noexcept {
  const Product& product = call.product;
  const Problem p = problem_of(product, {product.m(), product.n(), product.k(), false});
  const auto vector = [](const MatrixView& view) {
    return in_fours(view.data) && in_fours(view.ld);
  };
  const bool wide = in_fours(p.r.data) && is_along_n(p) && vector(product.d) &&
                    (product.beta == 0.0F || vector(product.c));
  FusedLaunch launch;
  launch.arguments = arguments_of(call, p);
  launch.form = {padded(p.extents.k), wide ? FusedLoads::AlongN : FusedLoads::Single, 0};

  constexpr std::int64_t kSmall = 16384;  // threads that a GPU holds without filling up
  constexpr std::int64_t kMostRowBlocks = 2048;
  const std::int64_t units = wide ? p.extents.n / kFusedPatch : p.extents.n;
  const int threads = units * p.extents.m <= kSmall ? 128 : 256;
  std::uint32_t lanes_log2 = 0;
  while ((1 << lanes_log2) < threads && (1 << lanes_log2) < units) ++lanes_log2;
  const std::int64_t rows = std::min(parts_of(p.extents.m, threads >> lanes_log2), kMostRowBlocks);
  const std::int64_t most_parts = parts_of(units, std::int64_t{1} << lanes_log2);
  std::uint32_t parts_log2 = 0;
  while ((2 << parts_log2) <= most_parts && (rows << parts_log2) < kMostRowBlocks) ++parts_log2;
  launch.arguments.lanes_log2 = lanes_log2;
  launch.arguments.parts_log2 = parts_log2;
  launch.grid = {rows << parts_log2, threads, 0};
  return launch;
}

}  // namespace ai::kernels
