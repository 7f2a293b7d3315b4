#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "activation_grad.hpp"

using namespace ai::kernels;
using ai::BiasKind;

namespace {

/// Where the kernels of activation_grad.cuh go over one grid, thread after thread.
struct Walk {
  std::int64_t m;
  std::int64_t n;
  std::vector<std::uint8_t> visits = std::vector<std::uint8_t>(static_cast<std::size_t>(m * n));
  std::int64_t shortest = m;  ///< rows of a part
  std::int64_t longest = 0;

  void visit(std::int64_t row, std::int64_t column) {
    ++visits.at(static_cast<std::size_t>(row * n + column));
  }
  [[nodiscard]] bool complete() const {
    return std::all_of(visits.begin(), visits.end(), [](int count) { return count == 1; });
  }

  void down(const GradientGrid& grid) {
    const std::int64_t width = std::int64_t{kLaneColumns} << grid.lanes_log2;
    for (std::int64_t block = 0; block < grid.blocks; ++block) {
      for (std::int64_t item = block; item < grid.tiles * grid.parts; item += grid.blocks) {
        const std::int64_t part = item / grid.tiles;
        const std::int64_t column = item % grid.tiles * width;
        const std::int64_t begin = part * grid.rows + std::min(part, grid.longer);
        const std::int64_t end = begin + grid.rows + (part < grid.longer ? 1 : 0);
        shortest = std::min(shortest, end - begin);
        longest = std::max(longest, end - begin);
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t c = column; c < std::min(column + width, n); ++c) visit(row, c);
        }
      }
    }
  }

  void along(const GradientGrid& grid) {
    for (std::int64_t block = 0; block < grid.blocks; ++block) {
      for (std::int64_t first = block * grid.groups(); first < m * grid.parts;
           first += grid.blocks * grid.groups()) {
        for (std::int64_t group = 0; group < grid.groups(); ++group) {
          const std::int64_t item = first + group;
          if (item >= m * grid.parts) continue;
          const std::int64_t begin = item / m * grid.piece;
          for (std::int64_t c = begin; c < std::min(begin + grid.piece, n); ++c) visit(item % m, c);
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("every grid goes over each element exactly once, in parts of even length") {
  for (const BiasKind kind : {BiasKind::None, BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
    for (const int sm_count : {1, 2, 132}) {
      for (const std::int64_t m : {1, 2, 3, 5, 8, 31, 64, 100, 257, 1000}) {
        for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 12, 33, 64, 127, 129, 500, 1024, 1025}) {
          for (const bool one_kernel : {false, true}) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(sm_count);
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(one_kernel);
            const GradientGrid grid = one_kernel ? one_kernel_grid(kind, m, n, sm_count)
                                                 : full_grid(kind, m, n, sm_count);
            Walk walk{m, n};
            if (kind == BiasKind::PerM) {
              walk.along(grid);
            } else {
              walk.down(grid);
              CHECK(walk.longest - walk.shortest <= 1);
              CHECK(walk.shortest >= 1);
            }
            CHECK(walk.complete());
          }
        }
      }
    }
  }
}

TEST_CASE("in a grid for one kernel each sum belongs to one block or group") {
  for (const int sm_count : {2, 132}) {
    for (const std::int64_t m : {1, 3, 64, 1000, 100000}) {
      for (const std::int64_t n : {1, 5, 64, 1024, 1025, 100000}) {
        CAPTURE(sm_count);
        CAPTURE(m);
        CAPTURE(n);
        CHECK(one_kernel_grid(BiasKind::PerN, m, n, sm_count).parts == 1);
        CHECK(one_kernel_grid(BiasKind::PerM, m, n, sm_count).parts == 1);
        const GradientGrid scalar = one_kernel_grid(BiasKind::Scalar, m, n, sm_count);
        CHECK((scalar.tiles * scalar.parts == 1) == (n <= 1024));
        CHECK((steps_per_thread(scalar, BiasKind::Scalar) < 0) == (n > 1024));
      }
    }
  }
}

TEST_CASE("a thread's steps are the rows, or pieces of a row, that its group walks") {
  GradientGrid grid;
  grid.lanes_log2 = 5;  // 8 groups, 128 columns a step
  grid.rows = 16;
  CHECK(steps_per_thread(grid, BiasKind::PerN) == 2);
  grid.longer = 1;
  CHECK(steps_per_thread(grid, BiasKind::PerN) == 3);
  grid.piece = 257;
  CHECK(steps_per_thread(grid, BiasKind::PerM) == 3);
}
