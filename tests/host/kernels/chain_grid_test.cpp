#include "kernels/chain_grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "chain_compiled.hpp"
#include "chain_device.hpp"
#include "chain_support.hpp"

using namespace ai::kernels::chain;
using chain_test::hopper;

namespace {

Network wide(int rows = 1) {
  Network network = chain_test::network({1024, 1024, 1024, 1024, 1024}, ai::ActKind::ReLU, rows);
  for (Layer& layer : network.layers) layer.w16 = true;
  return network;
}

Network ranking(int rows = 1) {
  Network network = chain_test::network({479, 1024, 1024, 512, 256, 1}, ai::ActKind::ReLU, rows);
  for (Layer& layer : network.layers) layer.w16 = layer.n % 4 == 0;
  return network;
}

}  // namespace

TEST_CASE("a grid shape is known again by its recipe, and by nothing else") {
  for (const GridShape& shape : {GridShape{128, 512, 4, 3, 900}, GridShape{1, 32, 1, 16, 0}}) {
    const auto parsed = parse_grid_recipe(recipe_of(shape));
    REQUIRE(parsed.has_value());
    CHECK(initializer_of(*parsed) == initializer_of(shape));
  }
  CHECK(recipe_of(GridShape{128, 512, 4, 0, 900}) == "grid 128 512 4 0 900");
  CHECK(initializer_of(GridShape{128, 512, 4, 0, 900}) == "{128, 512, 4, 0, 900}");
  CHECK(name_of(GridShape{128, 512, 4}) == "grid/128x512x4");
  CHECK(name_of(GridShape{128, 512, 4, 2, 900}) == "grid/128x512x4/ahead2/pause900");
  for (const char* text : {"",
                           "grid",
                           "grid 128 512 4 0",
                           "grid 128 512 4 0 0 ",
                           "grid 128 512 4 0 0 0",
                           "grid  128 512 4 0 0",
                           "grid 0128 512 4 0 0",
                           "grid 0 512 4 0 0",
                           "grid 2000 512 4 0 0",
                           "grid 128 500 4 0 0",
                           "grid 128 0 4 0 0",
                           "grid 128 1024 4 0 0",
                           "grid 128 512 0 0 0",
                           "grid 128 512 9 0 0",
                           "grid 128 512 4 -1 0",
                           "grid 128 512 4 17 0",
                           "grid 128 512 4 0 -1",
                           "grid 128 512 4 0 100001",
                           "grid 128 512 4 0 99999999999",
                           "chain 1 1 32 1 0 0",
                           "grids 128 512 4 0 0"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_grid_recipe(text).has_value());
  }
}

TEST_CASE("a grid shape that cannot serve a network says why") {
  const GridShape shape{128, 512, 4};
  CHECK(reason_against(wide(4), shape, hopper()) == "");
  CHECK(reason_against(wide(5), shape, hopper()) == "takes 4 rows, not 5");
  CHECK(reason_against(wide(), GridShape{133, 512, 4}, hopper()) ==
        "needs 133 multiprocessors of 132");
  CHECK(reason_against(wide(), GridShape{127, 512, 4}, hopper()) ==
        "needs 128 blocks of 127 for 1024 columns");
  const Network deep = chain_test::network(std::vector<int>(33, 8), ai::ActKind::ReLU, 1);
  CHECK(reason_against(deep, GridShape{4, 128, 1}, hopper()) == "takes 31 layers, not 32");
  const Network heavy = chain_test::network({1024, 1056, 1056, 1056, 1056, 1056, 1056, 1056, 8},
                                            ai::ActKind::ReLU, 1);
  const std::string reason = reason_against(heavy, GridShape{132, 512, 4}, hopper());
  CHECK(reason.find("bytes of shared memory of 232448") != std::string::npos);
  const Network tall = chain_test::network({4096, 64, 64}, ai::ActKind::ReLU, 4);
  CHECK(reason_against(tall, GridShape{128, 128, 1}, hopper()).find(" registers of ") !=
        std::string::npos);
}

TEST_CASE("grid shapes are few, fit, and differ") {
  for (const Network& network :
       {wide(), wide(4), ranking(), ranking(2), chain_test::every_feature(3),
        chain_test::network({235, 512, 256, 128, 12}, ai::ActKind::ELU, 1)}) {
    const std::vector<GridShape> shapes = grid_shapes(network, hopper());
    CHECK(shapes.size() >= 1);
    CHECK(shapes.size() <= 8);
    std::vector<std::string> recipes;
    for (const GridShape& shape : shapes) {
      CHECK(reason_against(network, shape, hopper()) == "");
      CHECK(parse_grid_recipe(recipe_of(shape)).has_value());
      CHECK(estimate_us(network, shape, hopper()) > 0);
      recipes.push_back(recipe_of(shape));
    }
    std::sort(recipes.begin(), recipes.end());
    CHECK(std::adjacent_find(recipes.begin(), recipes.end()) == recipes.end());
  }
  CHECK(grid_shapes(wide(5), hopper()).empty());
  CHECK(grid_shapes(chain_test::network({64, 64}, ai::ActKind::ReLU, 1), hopper()).empty());
  CHECK(grid_shapes(chain_test::network({64, 2048, 64}, ai::ActKind::ReLU, 1), hopper()).empty());
}

TEST_CASE("layers that need few blocks get different ones") {
  const Network network = ranking();
  const GridShape shape{128, 512, 4};
  const int bases[] = {0, 0, 0, 64, 96};
  const int blocks[] = {128, 128, 64, 32, 1};
  const int outputs[] = {0, 1024, 2048, 2560, 2816};
  int weights = 0;
  for (int l = 0; l < 5; ++l) {
    const GridStage stage = grid_stage(network.layers.data(), l, network.input, shape);
    CHECK(stage.base == bases[l]);
    CHECK(stage.blocks == blocks[l]);
    CHECK(stage.output_at == outputs[l]);
    CHECK(stage.input_at == (l == 0 ? 0 : outputs[l - 1]));
    CHECK(stage.weights_at == weights);
    CHECK(stage.step == round_up(network.layers[static_cast<std::size_t>(l)].k, 4) * 8);
    // The first layer's weights lie in registers.
    if (l > 0) weights += stage.step * 4;
  }
}

TEST_CASE("what a launch of the grid kernel takes") {
  const GridShape shape{128, 512, 4};
  const ai::kernels::LaunchShape launch = launch_shape(wide(), shape);
  CHECK(launch.blocks == 128);
  CHECK(launch.threads == 512 + 128 + 32);
  CHECK(launch.cooperative);
  CHECK(launch.cluster == 1);
  // 32 KB of weights for each layer but the first; sizes, sums of 16 warps and 32 biases for each
  // and for the run before them; a barrier a layer.
  CHECK(launch.shared_bytes == 3 * 32768 + 5 * 64 + 5 * 16 * 8 * 4 + 5 * 32 * 4 + 4 * 8);
  CHECK(launch_shape(wide(4), shape).shared_bytes ==
        4 * 32768 + 5 * 64 + 5 * 16 * 32 * 4 + 5 * 32 * 4 + 4 * 8);
  // 32 bytes a block, and two sets of four copies of the results of three layers.
  CHECK(state_bytes(wide(), shape) == 128 * 32 + 2 * 4 * 3 * 1024 * 4);
  CHECK(state_bytes(wide(3), shape) == 128 * 32 + 2 * 4 * 3 * 1024 * 4 * 4);
}

TEST_CASE("the grid kernel compiles for sm_90a and sm_80 without spills") {
  std::vector<ai::cuda::CompileRequest> requests;
  for (const TargetDevice& device :
       {TargetDevice{hopper(), 90, true}, TargetDevice{chain_test::ampere(), 80, false}}) {
    std::vector<Network> networks = {
        wide(),
        wide(4),
        ranking(),
        ranking(3),
        chain_test::every_feature(1),
        chain_test::every_feature(2),
        chain_test::every_feature(4),
        chain_test::network({600, 479, 235, 5, 1}, ai::ActKind::GELU, 2)};
    std::size_t served = 0;
    for (const Network& network : networks) {
      std::vector<GridShape> shapes = grid_shapes(network, device.machine);
      if (!shapes.empty()) served += 1;
      if (shapes.size() > 2) shapes.erase(shapes.begin() + 1, shapes.end() - 1);
      for (const GridShape& shape : shapes) {
        requests.push_back(request_for(network, shape, device));
        requests.back().name = name_of(shape) + " sm_" + std::to_string(device.compute_capability);
      }
    }
    // 1024 columns are 128 blocks.
    CHECK(served == (device.machine.multiprocessors >= 128 ? 8 : 4));
  }
  chain_test::check_compiled(requests);
}
