#include "kernels/chain_tiles.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chain_compiled.hpp"
#include "chain_device.hpp"
#include "chain_support.hpp"

using namespace ai::kernels::chain;
using chain_test::ampere;
using chain_test::hopper;

namespace {

Network aligned(Network network) {
  network.input.x16 = network.input.x_m % 4 == 0;
  for (Layer& layer : network.layers) {
    layer.w16 = std::max(layer.w_k, layer.w_n) % 4 == 0;
    layer.y16 = layer.writes_y && layer.y_m % 4 == 0;
    layer.z16 = layer.writes_z && layer.z_m % 4 == 0;
  }
  return network;
}

Network ranking(int rows = 128) {
  return aligned(chain_test::network({479, 1024, 1024, 512, 256, 1}, ai::ActKind::ReLU, rows));
}

Network wide(int rows = 256) {
  return aligned(chain_test::network({1024, 1024, 1024, 1024, 1024}, ai::ActKind::ReLU, rows));
}

std::vector<Network> some_networks() {
  return {
      ranking(),
      wide(),
      wide(16),
      aligned(chain_test::network({1024, 4096, 1024}, ai::ActKind::ReLU, 256)),  // several rounds
      chain_test::network({479, 1024, 1024, 512, 256, 1}, ai::ActKind::GELU, 100),
      aligned(chain_test::network({640, 128, 128, 8, 128, 640}, ai::ActKind::Tanh, 64)),
      aligned(chain_test::network({600, 479, 235, 5}, ai::ActKind::SiLU, 256)),
      chain_test::every_feature(37),
      aligned(chain_test::every_feature(128))};
}

}  // namespace

TEST_CASE("a tiles shape is known again by its recipe, and by nothing else") {
  for (const TilesShape& shape :
       {TilesShape{32, 32, 32, 2, 4, false}, TilesShape{128, 1, 16, 4, 16, true}}) {
    const auto parsed = parse_tiles_recipe(recipe_of(shape));
    REQUIRE(parsed.has_value());
    CHECK(initializer_of(*parsed) == initializer_of(shape));
  }
  CHECK(recipe_of(TilesShape{32, 31, 32, 2, 4, false}) == "tiles 32 31 32 2 4 0");
  CHECK(name_of(TilesShape{32, 31, 16, 2, 4, false}) == "tiles/32x31/16x2/ahead4");
  CHECK(name_of(TilesShape{32, 31, 16, 2, 4, true}) == "tiles/32x31/16x2/ahead4/tall");
  CHECK(initializer_of(TilesShape{32, 31, 16, 2, 4, true}) == "{32, 31, 16, 2, 4, true}");
  for (const char* text : {"",
                           "tiles",
                           "tiles 32 32 32 2 4",
                           "tiles 32 32 32 2 4 0 ",
                           "tiles 32 32 32 2 4 0 0",
                           "tiles  32 32 32 2 4 0",
                           "tiles 032 32 32 2 4 0",
                           "tiles 48 32 32 2 4 0",
                           "tiles 8 32 32 2 4 0",
                           "tiles 32 0 32 2 4 0",
                           "tiles 32 1025 32 2 4 0",
                           "tiles 32 32 24 2 4 0",
                           "tiles 32 32 32 1 4 0",
                           "tiles 32 32 32 5 5 0",
                           "tiles 32 32 32 3 2 0",
                           "tiles 32 32 32 2 17 0",
                           "tiles 32 32 32 2 4 2",
                           "tiles 32 32 32 2 99999999999 0",
                           "grid 32 32 32 2 4 0",
                           "chain 1 1 32 1 0 0"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_tiles_recipe(text).has_value());
  }
}

TEST_CASE("a tiles shape that cannot serve a network says why") {
  const TilesShape shape{32, 32, 32, 2, 4, false};
  CHECK(reason_against(ranking(), shape, hopper()) == "");
  CHECK(reason_against(ranking(129), shape, hopper()) == "needs 160 multiprocessors of 132");
  CHECK(reason_against(ranking(), shape, ampere()) == "needs 128 multiprocessors of 108");
  CHECK(reason_against(ranking(96), shape, ampere()) ==
        "needs 212992 bytes of shared memory of 166912");
  const Network broad = chain_test::network({64, 16384, 16384}, ai::ActKind::ReLU, 16);
  CHECK(reason_against(broad, TilesShape{16, 16, 32, 2, 2, false}, hopper())
            .starts_with("takes 16 tiles a block, not "));
}

TEST_CASE("tiles cover every layer, and a warp's lanes a tile") {
  for (const Network& network : some_networks()) {
    for (const TilesShape& shape : tiles_shapes(network, hopper())) {
      CAPTURE(name_of(shape));
      for (const Layer& layer : network.layers) {
        const Tile tile = tile_of(layer, shape);
        CHECK(tile.rows * tile.down == shape.group);
        CHECK(tile.columns * tile.across >= layer.n);
        CHECK(tile.columns * (tile.across - 1) < layer.n);
        CHECK(tile.terms * kTilesWarps >= layer.k);
        CHECK(tile.chunk * tile.chunks == tile.terms);
        CHECK(tile.rounds * shape.members >= tile.across * tile.down);
        CHECK(tile.rows * tile.columns * tile.slices == kWarp * kTilesSide * kTilesSide);
        CHECK(tile.chunk % (4 * tile.slices) == 0);
        CHECK(tile.stride >= tile.chunk);
        CHECK(tile.stride % 4 == 0);
      }
    }
  }
}

TEST_CASE("what layers pass on takes whole units of 16 bytes a row, twice") {
  const Network network = chain_test::network({64, 97, 5, 3}, ai::ActKind::ReLU, 17);
  const Layer* const layers = network.layers.data();
  CHECK(passed(network.input, layers, 0) == 0);
  CHECK(passed(network.input, layers, 1) == 17 * 100);
  CHECK(passed(network.input, layers, 2) == 17 * (100 + 8));
  // Two groups of three blocks; what they count fills a line.
  const TilesShape shape{16, 3, 16, 2, 2, false};
  CHECK(set_at(network.input, layers, 3, shape, 0) == 32);
  CHECK(set_at(network.input, layers, 3, shape, 1) == 32 + 17 * 108);
  CHECK(state_bytes(network, shape) == 4 * (32 + 2 * 17 * 108));
}

TEST_CASE("tiles shapes are few, fit, and differ") {
  for (const Network& network : some_networks()) {
    for (const Machine& machine : {hopper(), ampere()}) {
      const std::vector<TilesShape> shapes = tiles_shapes(network, machine);
      CHECK(shapes.size() >= 1);
      CHECK(shapes.size() <= 3);
      std::vector<std::string> recipes;
      double last = 0;
      for (const TilesShape& shape : shapes) {
        CHECK(reason_against(network, shape, machine) == "");
        CHECK(parse_tiles_recipe(recipe_of(shape)).has_value());
        CHECK(estimate_us(network, shape, machine) >= last);
        last = estimate_us(network, shape, machine);
        recipes.push_back(recipe_of(shape));
      }
      std::sort(recipes.begin(), recipes.end());
      CHECK(std::adjacent_find(recipes.begin(), recipes.end()) == recipes.end());
    }
  }
  CHECK(tiles_shapes(ranking(4), hopper()).empty());
  CHECK(tiles_shapes(ranking(100000), hopper()).empty());
}

TEST_CASE("a tiles shape has no more stages than the one that looks quickest") {
  const auto stages_of = [](const Network& network, const TilesShape& shape) {
    int stages = 0;
    for (const Layer& layer : network.layers) stages += tile_of(layer, shape).rounds;
    return stages;
  };
  int several = 0;
  for (const Network& network : some_networks()) {
    const std::vector<TilesShape> shapes = tiles_shapes(network, hopper());
    REQUIRE(!shapes.empty());
    const int most = stages_of(network, shapes.front());
    if (most > static_cast<int>(network.layers.size())) several += 1;
    for (const TilesShape& shape : shapes) CHECK(stages_of(network, shape) <= most);
  }
  CHECK(several > 0);
}

TEST_CASE("what a launch of the tiles kernel takes") {
  const TilesShape shape{32, 32, 32, 2, 4, false};
  const ai::kernels::LaunchShape launch = launch_shape(ranking(100), shape);
  CHECK(launch.blocks == 4 * 32);
  CHECK(launch.threads == 256);
  CHECK(launch.cooperative);
  Network lone = ranking(100);
  lone.layers.resize(1);
  CHECK_FALSE(launch_shape(lone, shape).cooperative);  // nobody waits for anybody
  CHECK(launch.cluster == 1);
  // A warp: two chunks of 32 rows, 40 apart, and four of 32 x 32 weights.
  CHECK(launch.shared_bytes == 8 * (2 * 32 * 40 + 4 * 32 * 32) * 4);
  // A word a block, and two sets of what is passed on, whether Y is written or not.
  CHECK(state_bytes(ranking(100), shape) == 4 * (128 + 2 * 100 * (1024 + 1024 + 512 + 256)));
  Network network = ranking(100);
  network.layers[1].writes_y = false;
  CHECK(state_bytes(network, shape) == state_bytes(ranking(100), shape));
}

TEST_CASE("rows of W that are far apart are no constants of 32 bits") {
  Network network = aligned(chain_test::network({64, 62, 60}, ai::ActKind::ReLU, 64));
  network.layers[1].w_k = 33'000'000;
  network.layers[1].w16 = true;
  const TilesShape shape{32, 4, 32, 2, 2, false};
  REQUIRE(reason_against(network, shape, hopper()) == "");
  chain_test::check_compiled({request_for(network, shape, TargetDevice{hopper(), 90, true})});
}

TEST_CASE("the tiles kernel compiles for sm_90a and sm_80 without spills") {
  std::vector<ai::cuda::CompileRequest> requests;
  for (const TargetDevice& device :
       {TargetDevice{hopper(), 90, true}, TargetDevice{ampere(), 80, false}}) {
    for (const Network& network : some_networks()) {
      std::vector<TilesShape> shapes = tiles_shapes(network, device.machine);
      REQUIRE(!shapes.empty());
      // Shapes of one network are much alike.
      shapes.resize(std::min<std::size_t>(shapes.size(), 2));
      for (const TilesShape& shape : shapes) {
        requests.push_back(request_for(network, shape, device));
        requests.back().name = name_of(shape) + " " + std::to_string(network.layers.size()) +
                               " layers sm_" + std::to_string(device.compute_capability);
      }
    }
  }
  chain_test::check_compiled(requests);
}
