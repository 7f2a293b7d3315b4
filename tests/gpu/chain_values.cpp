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

/// What planting has come to.
struct Planted {
  int captures = 0;
  int replays = 0;
  std::size_t nonfinite = 0;  ///< results of the last layer
};

/// NaN and both infinities in each place in turn. The network is one node of that kernel.
void check_planted(const ChainSpec& spec, const std::string& kernel, Planted& planted) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  CAPTURE(gpu::to_string(spec));
  DeviceChain chain(spec);
  CHECK(chain.is_one());
  CHECK_MESSAGE(gpu::chosen_kernel(chain.executable) == kernel, gpu::run_lines(chain.executable));
  ++planted.captures;
  for (const Plant& plant : kPlants) {
    for (const float value : {kNaN, kInf, -kInf}) {
      const std::string what = std::to_string(value) + " in " + plant.name;
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
      planted.nonfinite += verdict.nonfinite;
      ++planted.replays;
    }
  }
}

void tell(const Planted& planted) {
  MESSAGE("NaN and Inf planted: ", planted.replays, " replays of ", planted.captures, " networks; ",
          planted.nonfinite, " results of the last layer are not finite");
}

TEST_CASE("NaN and Inf in x, W and bias go through a network as the oracle says, whatever act is") {
  Planted planted;
  for (const ai::ActKind act : support::kActs) {
    for (const bool is_hidden : {false, true}) {
      check_planted(network_of(act, is_hidden), "chain", planted);
    }
  }
  tell(planted);
}

TEST_CASE("NaN and Inf go through the kernels for large layers and for many rows likewise") {
  Planted planted;
  for (const ai::ActKind act : {ai::ActKind::ReLU, ai::ActKind::GELU}) {
    check_planted(gpu::plain_chain({479, 1024, 1024, 256, 3}, act, 1), "grid", planted);
    check_planted(gpu::plain_chain({235, 1024, 1024, 64}, act, 128), "tiles", planted);
    check_planted(gpu::plain_chain({64, 64, 64, 63}, act, 16411), "rows", planted);
  }
  tell(planted);
}

}  // namespace
