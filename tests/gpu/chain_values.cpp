// NaN and Inf through several layers on the GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "chain_device.hpp"
#include "support/cases.hpp"

namespace {

using gpu::ChainNetwork;
using gpu::ChainSpec;
using gpu::ChainVerdict;
using gpu::DeviceChain;

struct Plant {
  const char* name;
  support::Buffer& (*into)(ChainNetwork&);
};

const std::vector<Plant> kPlants = {
    {"x", [](ChainNetwork& network) -> support::Buffer& { return network.x; }},
    {"W of layer 2", [](ChainNetwork& network) -> support::Buffer& { return network.layers[1].b; }},
    {"bias of layer 2",
     [](ChainNetwork& network) -> support::Buffer& { return *network.layers[1].bias; }},
};

/// Four layers of odd widths, all with `act`.
ChainSpec network_of(ai::ActKind act, bool is_hidden) {
  ChainSpec spec = gpu::plain_chain({19, 33, 24, 17, 6}, act, 5);
  for (gpu::ChainLayer& layer : spec.layers) layer.act = act;
  // Beside an infinite weight a hidden value must be known to be 0 or not: its Z says so.
  return is_hidden ? gpu::hidden(spec, true) : spec;
}

TEST_CASE("NaN and Inf in x, W and bias go through a network as the oracle says, whatever act is") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  int runs = 0;
  int one_node = 0;
  int captures = 0;
  std::size_t nonfinite = 0;
  for (const ai::ActKind act : support::kActs) {
    for (const bool is_hidden : {false, true}) {
      DeviceChain chain(network_of(act, is_hidden));
      ++captures;
      one_node += chain.is_one() ? 1 : 0;
      for (const Plant& plant : kPlants) {
        for (const float value : {kNaN, kInf, -kInf}) {
          const std::string what = std::string(ai::to_string(act)) +
                                   (is_hidden ? " hidden: " : ": ") + std::to_string(value) +
                                   " in " + plant.name;
          CAPTURE(what);
          chain.reset_with([&](ChainNetwork& network) {
            support::Buffer& buffer = plant.into(network);
            buffer.at(buffer.rows() / 2, buffer.cols() / 2) = value;
          });
          gpu::replay(chain.executable);
          chain.arena.download(chain.now);
          const ChainVerdict verdict = chain.verdict();
          CHECK(verdict.faults == "");
          if (std::isnan(value)) CHECK(verdict.nonfinite > 0);
          nonfinite += verdict.nonfinite;
          ++runs;
        }
      }
    }
  }
  CHECK(one_node == captures);
  MESSAGE("NaN and Inf planted: ", runs, " replays of ", captures, " networks, ", one_node,
          " of them one node; ", nonfinite, " results of the last layer are not finite");
}

}  // namespace
