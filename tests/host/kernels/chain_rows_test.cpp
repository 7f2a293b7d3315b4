#include "kernels/chain_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "chain_compiled.hpp"
#include "chain_device.hpp"
#include "chain_support.hpp"
#include "kernels/chain_form.hpp"

using namespace ai::kernels::chain;
using ai::kernels::LaunchShape;
using chain_test::ampere;
using chain_test::check_compiled;
using chain_test::hopper;

namespace {

Network radiance(int rows) {
  return chain_test::network({64, 64, 64, 64, 64, 64}, ai::ActKind::ReLU, rows);
}

/// The same, with everything at multiples of 16 bytes.
Network aligned(Network network) {
  network.input.x16 = true;
  for (Layer& layer : network.layers) {
    layer.w16 = true;
    layer.y16 = true;
    layer.z16 = layer.writes_z;
  }
  return network;
}

int shared_bytes(const Network& network, const RowsShape& shape) {
  return static_cast<int>(launch_shape(network, shape).shared_bytes);
}

}  // namespace

TEST_CASE("rows: a recipe gives its shape back, any other text none") {
  for (const RowsShape& shape : {RowsShape{32, 4, false}, RowsShape{16, 8, true},
                                 RowsShape{8, 1, false}, RowsShape{1, 2, false}}) {
    const auto back = parse_rows_recipe(recipe_of(shape));
    REQUIRE(back.has_value());
    CHECK(back->rows == shape.rows);
    CHECK(back->warps == shape.warps);
    CHECK(back->streamed == shape.streamed);
  }
  CHECK(recipe_of(RowsShape{32, 4, false}) == "rows 32 4 0");
  CHECK(name_of(RowsShape{32, 4, false}) == "rows/32x4");
  CHECK(name_of(RowsShape{16, 8, true}) == "rows/16x8/streamed");
  CHECK(initializer_of(RowsShape{16, 8, true}) == "{16, 8, true}");
  for (const char* text : {"",
                           "rows",
                           "rows ",
                           "rows 32 4",
                           "rows 32 4 ",
                           "rows 32 4 0 ",
                           "rows 32 4 0 0",
                           "rows 32 4 2",
                           "rows 32 4 -1",
                           "rows 32 4 0x",
                           " rows 32 4 0",
                           "rows  32 4 0",
                           "rows 032 4 0",
                           "rows +32 4 0",
                           "Rows 32 4 0",
                           "rows 24 4 0",
                           "rows 64 4 0",
                           "rows 0 4 0",
                           "rows 32 0 0",
                           "rows 1 2 1",
                           "rows 2 2 0",
                           "rows 32 9 0",
                           "rows 32 99999999999 0",
                           "chain 32 4 0",
                           "rows32 4 0"}) {
    CAPTURE(text);
    CHECK(!parse_rows_recipe(text));
  }
}

TEST_CASE("rows: lanes and their rows and columns cover each layer's tile exactly") {
  for (const int rows : {32, 16, 8}) {
    for (int n = 1; n <= most_columns({rows, 4, false}); ++n) {
      Layer layer;
      layer.k = n;
      layer.n = n;
      const Tiling tiling = tiling_of(layer, {rows, 4, false});
      CAPTURE(rows);
      CAPTURE(n);
      CHECK(tiling.column_groups * tiling.row_groups == kWarp);
      CHECK(tiling.rows * tiling.row_groups == rows);
      CHECK(4 * tiling.vectors * tiling.column_groups == tiling.columns);
      CHECK(tiling.columns >= n);
      // The next layer reads as many terms of it, zeros included.
      CHECK(tiling.terms >= n);
      CHECK(tiling.terms % 8 == 0);
      CHECK(tiling.columns >= tiling.terms);
      // The kernel's way of choosing banks needs two of either.
      CHECK(tiling.column_groups >= 2);
      CHECK(tiling.row_groups >= 2);
    }
  }
  for (const auto& [n, terms, columns] :
       {std::array{1, 4, 32}, std::array{20, 20, 32}, std::array{33, 36, 64}}) {
    Layer layer;
    layer.k = n;
    layer.n = n;
    const Tiling line = tiling_of(layer, {1, 2, false});
    CHECK(line.terms == terms);
    CHECK(line.columns == columns);
    CHECK(line.vectors == columns / kWarp);
    CHECK(line.rows == 1);
  }
}

TEST_CASE("rows: areas of shared memory follow one another, at multiples of 16 bytes") {
  const Network network = chain_test::every_feature(3000);
  const auto depth = static_cast<int>(network.layers.size());
  for (const RowsShape& shape : {RowsShape{32, 4, false}, RowsShape{16, 3, true},
                                 RowsShape{8, 8, false}, RowsShape{1, 3, false}}) {
    CAPTURE(name_of(shape));
    const RowsLayout layout = rows_layout_of(network.layers.data(), depth, shape);
    int most = 0;
    for (int l = 0; l < depth; ++l) {
      const RowsLayout before = rows_layout_of(network.layers.data(), l, shape);
      const Tiling tiling = tiling_of(network.layers[static_cast<std::size_t>(l)], shape);
      CHECK(before.biases % 4 == 0);
      CHECK(before.weights % 4 == 0);
      CHECK(layout.stride >= tiling.columns);
      most = std::max(most, tiling.terms * tiling.columns);
    }
    CHECK(layout.stride % (shape.rows == 1 ? 4 : 8) == (shape.rows == 1 ? 0 : 4));
    CHECK(layout.weights_at == layout.biases);
    if (shape.streamed) CHECK(layout.weights == most);
    CHECK(layout.values_at == layout.weights_at + (shape.streamed ? 2 : 1) * layout.weights);
    CHECK(layout.values_at % 4 == 0);
    CHECK(layout.shared == layout.values_at + shape.rows * shape.warps * layout.stride);
  }
}

TEST_CASE("rows: what does not fit is told") {
  CHECK(reason_against(radiance(16384), RowsShape{32, 4, false}, hopper()) == "");
  Machine small = hopper();
  // Five layers of 64 biases and 64 x 64 weights; 128 rows of 64 columns and 4.
  small.limits.shared_bytes = 4 * (5 * (64 + 64 * 64) + 128 * 68);
  CHECK(reason_against(radiance(16384), RowsShape{32, 4, false}, small) == "");
  const std::string bytes = std::to_string(small.limits.shared_bytes);
  small.limits.shared_bytes -= 1;
  CHECK(reason_against(radiance(16384), RowsShape{32, 4, false}, small) ==
        "needs " + bytes + " bytes of shared memory of " +
            std::to_string(small.limits.shared_bytes));
  CHECK(reason_against(radiance(16384), RowsShape{32, 4, true}, small) == "");
  const Network wide = chain_test::network({64, 129, 8}, ai::ActKind::ReLU, 4096);
  CHECK(reason_against(wide, RowsShape{16, 4, false}, hopper()) ==
        "a layer has 129 columns, more than 128");
  CHECK(reason_against(radiance(64), RowsShape{1, 2, true}, hopper()) ==
        "one row a warp needs the weights of all layers");
  const Network less = chain_test::network({64, 97, 8}, ai::ActKind::ReLU, 4096);
  CHECK(reason_against(less, RowsShape{32, 4, false}, hopper()) ==
        "a layer has 97 columns, more than 96");
  CHECK(reason_against(less, RowsShape{16, 4, false}, hopper()) == "");
  const Network deep = chain_test::network({129, 8}, ai::ActKind::ReLU, 4096);
  CHECK(reason_against(deep, RowsShape{16, 4, false}, hopper()) ==
        "a layer has 129 terms, more than 128");
  Network far = radiance(16385);
  far.layers.back().y_m = 130055;  // 16512 rows of it are less than 2^31 elements
  CHECK(reason_against(far, RowsShape{32, 4, false}, hopper()) == "");
  far.layers.back().y_m = 130056;
  CHECK(reason_against(far, RowsShape{32, 4, false}, hopper()) ==
        "rows past the last one are 2^31 elements away");
  CHECK(reason_against(far, RowsShape{32, 2, false}, hopper()) == "");
}

TEST_CASE("rows: shapes are offered for many rows, streamed only where they must be") {
  CHECK(rows_shapes(radiance(31), hopper()).empty());
  for (const RowsShape& shape : rows_shapes(radiance(511), hopper())) CHECK(shape.rows == 1);
  const Network pinn =
      chain_test::network({3, 20, 20, 20, 20, 20, 20, 20, 20, 2}, ai::ActKind::Tanh, 256);
  CHECK(rows_shapes(pinn, hopper()).front().rows == 1);
  for (const Machine& machine : {hopper(), ampere()}) {
    const std::vector<RowsShape> shapes = rows_shapes(radiance(16384), machine);
    REQUIRE(!shapes.empty());
    CHECK(shapes.size() <= 8);
    for (const RowsShape& shape : shapes) {
      CHECK(reason_against(radiance(16384), shape, machine) == "");
      CHECK(parse_rows_recipe(recipe_of(shape)).has_value());
    }
  }
  CHECK(name_of(rows_shapes(radiance(16384), hopper()).front()) == "rows/32x4");
  const Network wide = chain_test::network({128, 128, 128, 128, 128}, ai::ActKind::ReLU, 16384);
  const std::vector<RowsShape> streamed = rows_shapes(wide, hopper());
  REQUIRE(!streamed.empty());
  for (const RowsShape& shape : streamed) {
    CHECK(shape.streamed);
    CHECK(shared_bytes(wide, {shape.rows, shape.warps, false}) > hopper().limits.shared_bytes);
  }
  CHECK(rows_shapes(chain_test::network({64, 129, 8}, ai::ActKind::ReLU, 4096), hopper()).empty());
}

TEST_CASE("rows: blocks hold all rows, and one each at least") {
  const LaunchShape launch = launch_shape(radiance(16384), RowsShape{32, 4, false});
  CHECK(launch.blocks == 128);
  CHECK(launch.threads == 128);
  CHECK(launch.shared_bytes == 4 * (5 * (64 + 64 * 64) + 128 * 68));
  CHECK(launch.cluster == 1);
  CHECK(!launch.cooperative);
  CHECK(launch_shape(radiance(16385), RowsShape{32, 4, false}).blocks == 129);
  CHECK(launch_shape(radiance(1), RowsShape{32, 4, false}).blocks == 1);
}

TEST_CASE("rows: more rows take longer by the estimate, and a sound figure for what was measured") {
  const double us = estimate_us(radiance(16384), RowsShape{32, 4, false}, hopper());
  CHECK(us > 17.0);
  CHECK(us < 23.0);  // 20.4 on an H200
  CHECK(estimate_us(radiance(32768), RowsShape{32, 4, false}, hopper()) > us + 10);
}

TEST_CASE("rows: everything compiles for sm_90a and sm_80 without spills") {
  const TargetDevice devices[] = {{hopper(), 90, true}, {ampere(), 80, false}};
  std::vector<Network> networks = {
      radiance(16384),
      aligned(radiance(16384)),
      chain_test::every_feature(3000),
      aligned(chain_test::network({128, 128, 128, 100, 5}, ai::ActKind::GELU, 4096)),
      chain_test::network({101, 96, 96, 96}, ai::ActKind::Tanh, 16384),
      chain_test::network({3, 20, 20, 20, 2}, ai::ActKind::Tanh, 4096),
      chain_test::network({1, 1}, ai::ActKind::None, 1000)};
  Network transposed = radiance(2000);
  transposed.input.x_k = 2000;
  transposed.input.x_m = 1;
  for (Layer& layer : transposed.layers) std::swap(layer.w_k, layer.w_n);
  networks.push_back(transposed);
  std::vector<ai::cuda::CompileRequest> requests;
  for (const TargetDevice& device : devices) {
    // What differs from one architecture to the other is not what the later ones are for.
    const std::size_t count = device.arch_specific ? networks.size() : 3;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_wide = networks[i].layers.front().n > most_columns({32, 4, false});
      for (RowsShape shape : {RowsShape{is_wide ? 16 : 32, 4, false}, RowsShape{8, 8, false},
                              RowsShape{1, 2, false}}) {
        if (shape.rows == 8 && i % 2 == 0) continue;
        if (!reason_against(networks[i], shape, device.machine).empty()) shape.streamed = true;
        if (!reason_against(networks[i], shape, device.machine).empty()) continue;
        requests.push_back(request_for(networks[i], shape, device));
        requests.back().name = std::to_string(i) + " " + name_of(shape) + " sm_" +
                               std::to_string(device.compute_capability);
      }
    }
  }
  check_compiled(requests);
}
