// Random networks on the GPU: right, and one node each where a chain kernel can serve.
#include "chain_random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "chain_device.hpp"

namespace {

using gpu::ChainSpec;
using gpu::ChainVerdict;
using gpu::DeviceChain;

/// What a set of random networks came to.
struct Tally {
  int networks = 0;
  int deep = 0;      ///< of two layers or more
  int one_node = 0;  ///< of those
  std::size_t elements = 0;
  double worst = 0;
};

void check_network(const ChainSpec& spec, const ai::CaptureOptions& options, Tally& tally) {
  CAPTURE(gpu::to_string(spec));
  DeviceChain chain(spec, options);
  chain.run();
  const ChainVerdict verdict = chain.verdict();
  CHECK(verdict.faults == "");
  ++tally.networks;
  tally.elements += verdict.elements;
  tally.worst = std::max(tally.worst, verdict.worst);
  if (spec.layers.size() < 2) return;
  ++tally.deep;
  if (chain.is_one()) {
    ++tally.one_node;
  } else {
    MESSAGE("not one node but ", chain.executable.nodes().size(), ": ", gpu::to_string(spec), "; ",
            gpu::run_lines(chain.executable));
  }
}

TEST_CASE(
    "200 random networks equal the oracle, and nine in ten of two layers or more are one node") {
  constexpr int kNetworks = 200;
  constexpr double kLimitS = 300;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Tally tally;
  while (tally.networks < kNetworks && seconds() < kLimitS) {
    check_network(gpu::random_chain(1000 + static_cast<std::uint32_t>(tally.networks)),
                  gpu::measured(0.15), tally);
  }
  MESSAGE(tally.networks, " of ", kNetworks, " random networks in ", seconds(), " s (limit ",
          kLimitS, " s): ", tally.one_node, " of ", tally.deep,
          " with two layers or more are one node; worst error ", tally.worst, " of the bound in ",
          tally.elements, " results");
  CHECK(tally.networks == kNetworks);
  CHECK(10 * tally.one_node >= 9 * tally.deep);
}

// For the tools of compute-sanitizer: every candidate is tried, however little a time means there.
TEST_CASE("small random networks equal the oracle, measured and not") {
  const gpu::ChainExtent small{.layers = 4, .width = 40, .batch = 9};
  Tally tally;
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    const ChainSpec spec = gpu::random_chain(seed, small);
    check_network(spec, gpu::measured(20.0), tally);
    check_network(spec, {.tuning = ai::Tuning::Off}, tally);
  }
  MESSAGE(tally.networks, " small networks, measured and not: ", tally.one_node, " of ", tally.deep,
          " with two layers or more are one node");
  CHECK(tally.deep > 0);
}

}  // namespace
