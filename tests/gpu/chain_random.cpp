// Random networks on the GPU: right, and one node each where a chain kernel can serve.
#include "chain_random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "chain_device.hpp"

namespace {

using gpu::ChainSpec;
using gpu::ChainVerdict;
using gpu::DeviceChain;

/// What a network came to on the GPU.
struct Outcome {
  ChainVerdict verdict;
  std::size_t nodes = 0;
  bool is_one = false;  ///< one node; of two layers or more, a chain kernel
  std::string lines;    ///< of explain(), where it is not one
};

/// Any thread may be here.
Outcome carried_out(const ChainSpec& spec, const ai::CaptureOptions& options) {
  CAPTURE(gpu::to_string(spec));
  DeviceChain chain(spec, options);
  chain.run();
  Outcome outcome{chain.verdict(), chain.executable.nodes().size(), false, {}};
  outcome.is_one = outcome.nodes == 1 && (spec.layers.size() == 1 || chain.is_one());
  if (!outcome.is_one) outcome.lines = gpu::run_lines(chain.executable);
  return outcome;
}

/// Networks, and those of them that are one node.
struct Count {
  int networks = 0;
  int one_node = 0;

  void add(bool is_one) {
    ++networks;
    if (is_one) ++one_node;
  }
};

/// What a set of random networks came to.
struct Tally {
  Count all;
  Count deep;  ///< of two layers or more
  std::size_t elements = 0;
  double worst = 0;

  void add(const ChainSpec& spec, const Outcome& outcome) {
    CAPTURE(gpu::to_string(spec));
    CHECK(outcome.verdict.faults == "");
    all.add(outcome.is_one);
    if (spec.layers.size() > 1) deep.add(outcome.is_one);
    elements += outcome.verdict.elements;
    worst = std::max(worst, outcome.verdict.worst);
    if (outcome.is_one) return;
    MESSAGE("not one node but ", outcome.nodes, ": ", gpu::to_string(spec), "; ", outcome.lines);
  }
  [[nodiscard]] std::string counts() const {
    return std::to_string(all.one_node) + " of " + std::to_string(all.networks) +
           " are one node, of those with two layers or more " + std::to_string(deep.one_node) +
           " of " + std::to_string(deep.networks);
  }
};

ai::CaptureOptions unmeasured() {
  return {.tuning = ai::Tuning::Off};
}

/// Measuring takes a second or two a network, and nothing else should run meanwhile: so every
/// eighth one is, and those of one layer, since only then kernels are compiled for them. The
/// others, whose kernels take most of the time to compile, are captured and replayed by several
/// threads.
bool is_measured(int network, const ChainSpec& spec) {
  return network % 8 == 0 || spec.layers.size() == 1;
}

/// Networks of `count` seeds from `seed` on, as many as there is time for, which should be all.
/// Nine in ten are one node; the others are listed with their reasons.
void check_networks(const std::string& what, int count, std::uint32_t seed, double limit_s,
                    const gpu::ChainExtent& most) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto spec_of = [&](int network) {
    return gpu::random_chain(seed + static_cast<std::uint32_t>(network), most);
  };
  Tally tally;
  std::deque<std::pair<ChainSpec, std::future<Outcome>>> running;
  const auto finish_one = [&] {
    auto [spec, outcome] = std::move(running.front());
    running.pop_front();
    tally.add(spec, outcome.get());
  };
  const std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  for (int i = 0; i < count && seconds() < limit_s; ++i) {
    const ChainSpec spec = spec_of(i);
    if (is_measured(i, spec)) continue;
    if (running.size() == threads) finish_one();
    running.emplace_back(
        spec, std::async(std::launch::async, [spec] { return carried_out(spec, unmeasured()); }));
  }
  while (!running.empty()) finish_one();
  for (int i = 0; i < count && seconds() < limit_s; ++i) {
    const ChainSpec spec = spec_of(i);
    if (!is_measured(i, spec)) continue;
    tally.add(spec, carried_out(spec, gpu::measured(2.0)));
  }
  MESSAGE(tally.all.networks, " of ", count, " random networks, ", what, ", in ", seconds(),
          " s (limit ", limit_s, " s): ", tally.counts(), "; worst error ", tally.worst,
          " of the bound in ", tally.elements, " results");
  CHECK(tally.all.networks == count);
  CHECK(10 * tally.all.one_node >= 9 * tally.all.networks);
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
    tally.add(spec, carried_out(spec, gpu::measured(20.0)));
    tally.add(spec, carried_out(spec, unmeasured()));
  }
  MESSAGE("small networks, measured and not: ", tally.counts());
  CHECK(tally.deep.networks > 0);
}

}  // namespace
