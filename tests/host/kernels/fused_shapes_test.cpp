#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "fused.hpp"

using ai::kernels::fused_blocks;
using ai::kernels::fused_extents;
using ai::kernels::fused_launch;
using ai::kernels::fused_rounds;
using ai::kernels::fused_shapes;
using ai::kernels::FusedCall;
using ai::kernels::FusedLoads;
using ai::kernels::FusedShape;
using ai::kernels::LaunchShape;
using ai::kernels::MatrixView;
using ai::kernels::outer_launch;
using ai::kernels::Product;

namespace {

MatrixView view(std::int64_t rows, std::int64_t cols, std::int64_t pad = 0,
                std::uintptr_t address = 1 << 20) {
  return {reinterpret_cast<float*>(address), rows, cols, rows <= 1 ? cols : cols + pad};
}
Product product(std::int64_t m, std::int64_t n, std::int64_t k, bool trans_l = false,
                bool trans_r = false) {
  Product p;
  p.l = trans_l ? view(k, m) : view(m, k);
  p.r = trans_r ? view(n, k) : view(k, n);
  p.d = view(m, n);
  p.trans_l = trans_l;
  p.trans_r = trans_r;
  return p;
}
FusedLoads loads_of(const Product& p) {
  FusedCall call;
  call.product = p;
  return fused_launch(call, fused_shapes(p).front()).form.loads;
}

}  // namespace

TEST_CASE("a small layer is one warp a block, a large one a block a multiprocessor") {
  const auto first = [](std::int64_t m, std::int64_t n, std::int64_t k, bool trans_r = false) {
    return fused_shapes(product(m, n, k, false, trans_r)).front();
  };
  CHECK(first(1, 64, 64) == FusedShape{1, 32});
  CHECK(fused_blocks(product(1, 64, 64), first(1, 64, 64)) == 8);
  CHECK(first(1, 1024, 1024) == FusedShape{1, 512});
  CHECK(fused_blocks(product(1, 1024, 1024), first(1, 1024, 1024)) == 128);
  CHECK(first(1, 11008, 4096) == FusedShape{3, 512});
  CHECK(fused_blocks(product(1, 11008, 4096), first(1, 11008, 4096)) == 344);
  CHECK(first(1, 64, 64, true) == FusedShape{1, 32});
  CHECK(first(1, 1024, 1024, true) == FusedShape{0, 256});
  CHECK(first(8, 64, 64) == FusedShape{1, 128});
  CHECK(first(1, 1, 256) == FusedShape{0, 128});
}

TEST_CASE("every launch has threads for its sums and its results, and no two are the same") {
  for (const bool trans_r : {false, true}) {
    for (const std::int64_t m : {1, 2, 3, 8, 9, 1000}) {
      for (const std::int64_t n : {1, 3, 4, 5, 8, 12, 64, 1000, 4096, 11008}) {
        if (m > 8 && n > 8) continue;
        for (const std::int64_t k : {1, 4, 5, 31, 64, 128, 235, 1024, 4096, 100000}) {
          const Product p = product(m, n, k, false, trans_r);
          const std::vector<FusedShape> shapes = fused_shapes(p);
          REQUIRE_FALSE(shapes.empty());
          CHECK(shapes.size() <= 3);
          const auto e = fused_extents(p);
          CHECK(e.m <= 8);
          CHECK(e.turned == (m > 8));
          for (std::size_t i = 0; i < shapes.size(); ++i) {
            const FusedShape& shape = shapes[i];
            FusedCall call;
            call.product = p;
            const auto launch = fused_launch(call, shape);
            CHECK((ai::kernels::fused_kernel(ai::ActKind::Tanh, launch.form) != nullptr));
            auto single = launch.form;
            single.loads = FusedLoads::Single;
            CHECK((ai::kernels::fused_kernel(ai::ActKind::Tanh, single) != nullptr));
            CHECK(launch.form.rows >= e.m);
            CHECK(launch.grid.threads <= 512);
            CHECK((launch.grid.threads % 128 == 0 || (launch.grid.threads == 32 && e.m == 1)));
            CHECK((launch.grid.threads == 32 ||
                   launch.grid.threads >= launch.form.rows * (4 << shape.lanes_log2)));
            CHECK(launch.grid.blocks * (4 << shape.lanes_log2) >= e.n);
            CHECK(fused_rounds(p, shape) * 4 * (shape.threads >> shape.lanes_log2) >= k);
            for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(shapes[j] == shape);
          }
        }
      }
    }
  }
}

TEST_CASE("R is loaded in fours along what is contiguous, where extents and steps allow") {
  CHECK(loads_of(product(1, 64, 7)) == FusedLoads::AlongN);
  CHECK(loads_of(product(1, 7, 64)) == FusedLoads::Single);
  CHECK(loads_of(product(1, 7, 64, false, true)) == FusedLoads::AlongK);
  CHECK(loads_of(product(1, 64, 7, false, true)) == FusedLoads::Single);
  CHECK(loads_of(product(1, 1, 64)) == FusedLoads::AlongK);    // [64,1] is [1,64]
  CHECK(loads_of(product(64, 8, 256)) == FusedLoads::AlongK);  // turned over: R is A
  CHECK(loads_of(product(64, 8, 255)) == FusedLoads::Single);
  Product p = product(1, 64, 64);
  p.r = view(64, 64, 4);
  CHECK(loads_of(p) == FusedLoads::AlongN);
  p.r = view(64, 64, 3);
  CHECK(loads_of(p) == FusedLoads::Single);
  p.r = view(64, 64, 0, (1 << 20) + 4);
  CHECK(loads_of(p) == FusedLoads::Single);
}

TEST_CASE("outer products have a thread for each 4 elements, and share out long and many rows") {
  const auto grid = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    FusedCall call;
    call.product = product(m, n, k, true);
    return outer_launch(call);
  };
  const auto small = grid(64, 64, 1);
  CHECK(small.form.rows == 1);
  CHECK(small.form.loads == FusedLoads::AlongN);
  CHECK(small.grid.threads == 128);
  CHECK(small.grid.blocks == 8);
  const auto square = grid(1024, 1024, 3);
  CHECK(square.form.rows == 4);
  CHECK(square.grid.threads == 256);
  CHECK(square.grid.blocks == 1024);
  const auto odd = grid(32, 5, 8);
  CHECK(odd.form.loads == FusedLoads::Single);
  CHECK(odd.arguments.lanes_log2 == 3);
  CHECK(odd.grid.blocks == 2);
  const auto large = grid(4096, 11008, 1);
  CHECK(large.grid.blocks == 2048);
  const auto flat = grid(4, 1 << 20, 1);
  CHECK(flat.arguments.parts_log2 == 9);
  CHECK(flat.grid.blocks == 2048);
}
