// Random networks on the GPU: right, and one node each where a chain kernel can serve.
#include "chain_random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

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

/// Measuring takes a second or two a network, so every eighth one is.
ai::CaptureOptions options_of(int network) {
  return network % 8 == 0 ? gpu::measured(2.0) : ai::CaptureOptions{.tuning = ai::Tuning::Off};
}

/// Networks of `count` seeds from `seed` on, as many as there is time for, which should be all.
/// Nine in ten of two layers or more are one node; the others are listed with their reasons.
void check_networks(const std::string& what, int count, std::uint32_t seed, double limit_s,
                    const gpu::ChainExtent& most) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Tally tally;
  while (tally.networks < count && seconds() < limit_s) {
    check_network(gpu::random_chain(seed + static_cast<std::uint32_t>(tally.networks), most),
                  options_of(tally.networks), tally);
  }
  MESSAGE(tally.networks, " of ", count, " random networks, ", what, ", in ", seconds(),
          " s (limit ", limit_s, " s): ", tally.one_node, " of ", tally.deep,
          " with two layers or more are one node; worst error ", tally.worst, " of the bound in ",
          tally.elements, " results");
  CHECK(tally.networks == count);
  CHECK(10 * tally.one_node >= 9 * tally.deep);
}

TEST_CASE("200 random networks equal the oracle, and nine in ten are one node") {
  check_networks("each width as likely as any", 200, 3000, 300, {});
}

// Of those above few layers are narrow.
TEST_CASE("60 random networks of narrow and wide layers equal the oracle, and are one node") {
  check_networks("each octave of widths as likely as any", 60, 1000, 120, {.has_octaves = true});
}

// For the tools of compute-sanitizer: every candidate is tried, however little a time means there.
TEST_CASE("small random networks equal the oracle, measured and not") {
  const gpu::ChainExtent small{.layers = 4, .width = 40, .batch = 9, .has_octaves = true};
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
