#include <algorithm>
#include <limits>

#include "activation_grad.hpp"
#include "kernels/launch.hpp"

namespace ai::kernels {
namespace {

constexpr int kMaxBlocksPerSm = 64;       // beyond, blocks take several items
constexpr std::int64_t kRowsPerPart = 4;  // below, partial sums cost more than they divide
constexpr int kMaxLanesLog2 = 8;
constexpr int kWarpLog2 = 5;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b + (a % b != 0);
}

/// The least lanes that cover n columns, at most 2^limit.
int lanes_log2_for(std::int64_t n, int limit) noexcept {
  int log2 = 0;
  while (log2 < limit && (std::int64_t{kLaneColumns} << log2) < n) ++log2;
  return log2;
}

std::int64_t tiles_of(std::int64_t n, int lanes_log2) noexcept {
  return ceil_div(n, std::int64_t{kLaneColumns} << lanes_log2);
}

void finish_down(GradientGrid& grid, std::int64_t m, std::int64_t n, int sm_count) noexcept {
  grid.tiles = tiles_of(n, grid.lanes_log2);
  grid.rows = m / grid.parts;
  grid.longer = m % grid.parts;
  grid.blocks = blocks_for(grid.tiles * grid.parts, 1, std::int64_t{kMaxBlocksPerSm} * sm_count);
}

GradientGrid along(std::int64_t m, std::int64_t n, std::int64_t parts, int sm_count) noexcept {
  GradientGrid grid;
  grid.lanes_log2 = lanes_log2_for(n, kWarpLog2);
  const std::int64_t width = std::int64_t{kLaneColumns} << grid.lanes_log2;
  grid.parts = std::clamp<std::int64_t>(parts, 1, ceil_div(n, width));
  grid.piece = ceil_div(ceil_div(n, width), grid.parts) * width;
  grid.parts = ceil_div(n, grid.piece);
  grid.blocks = blocks_for(m * grid.parts, grid.groups(), std::int64_t{kMaxBlocksPerSm} * sm_count);
  return grid;
}

}  // namespace

GradientGrid full_grid(BiasKind kind, std::int64_t m, std::int64_t n, int sm_count) noexcept {
  // All resident at once. With 6 blocks, Tanh over [16384,1024] took 70 us instead of 58 on an
  // H200: the last of them ran as a second, nearly empty wave.
  const std::int64_t wanted = std::int64_t{kGradientBlocksPerSm} * sm_count;
  if (kind == BiasKind::PerM) {
    const int groups = kGradientThreads >> lanes_log2_for(n, kWarpLog2);
    const std::int64_t columns = std::int64_t{kLaneColumns * kRowsPerPart} << kWarpLog2;
    return along(m, n, std::min(wanted * groups / m, ceil_div(n, columns)), sm_count);
  }
  GradientGrid grid;
  grid.lanes_log2 = lanes_log2_for(n, kWarpLog2);
  // Few rows leave row groups idle: spread wider.
  while (grid.lanes_log2 < kMaxLanesLog2 && grid.groups() / 2 >= m &&
         (std::int64_t{kLaneColumns} << grid.lanes_log2) < n) {
    ++grid.lanes_log2;
  }
  const std::int64_t least = grid.groups() * (kind == BiasKind::None ? 1 : kRowsPerPart);
  grid.parts = std::clamp<std::int64_t>(wanted / tiles_of(n, grid.lanes_log2), 1,
                                        std::max<std::int64_t>(m / least, 1));
  finish_down(grid, m, n, sm_count);
  return grid;
}

GradientGrid one_kernel_grid(BiasKind kind, std::int64_t m, std::int64_t n, int sm_count) noexcept {
  if (kind == BiasKind::None) return full_grid(kind, m, n, sm_count);
  if (kind == BiasKind::PerM) return along(m, n, 1, sm_count);
  GradientGrid grid = full_grid(kind, m, n, sm_count);
  grid.parts = 1;
  if (kind == BiasKind::Scalar) {
    grid.lanes_log2 = lanes_log2_for(n, kMaxLanesLog2);
  } else {
    // Narrow tiles give more blocks and fewer rows a thread; below 8 columns they split sectors.
    while (grid.lanes_log2 > 1 && grid.groups() < m &&
           tiles_of(n, grid.lanes_log2 - 1) <= sm_count) {
      --grid.lanes_log2;
    }
  }
  finish_down(grid, m, n, sm_count);
  return grid;
}

std::int64_t steps_per_thread(const GradientGrid& grid, BiasKind kind) noexcept {
  if (kind == BiasKind::PerM) return ceil_div(grid.piece, kLaneColumns * grid.lanes());
  if (kind == BiasKind::Scalar && grid.tiles * grid.parts > 1) return -1;
  return ceil_div(grid.rows + (grid.longer > 0 ? 1 : 0), grid.groups());
}

}  // namespace ai::kernels
