// The same bits from every replay on the GPU, and weights that change in between.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chain_hammer.hpp"
#include "layer.hpp"

namespace {

using gpu::Arena;
using gpu::ChainNetwork;
using gpu::ChainSpec;
using gpu::DeviceChain;
using gpu::Hammer;
using gpu::Images;
using gpu::OwnStream;

constexpr int kReplays = 10000;

/// The first replay is right, so those with its bits are.
void check_first(DeviceChain& chain) {
  CHECK(chain.is_one());
  chain.run();
  CHECK(chain.verdict().faults == "");
  chain.reset();
}

using Kernels = std::set<std::string>;

/// The chains make use of all of them.
void check_all_in(const Kernels& seen) {
  for (const char* kernel : {"chain", "rows", "grid", "tiles"}) {
    CAPTURE(kernel);
    CHECK(seen.contains(kernel));
  }
}

TEST_CASE("10,000 replays give the same bits, each from poisoned outputs") {
  Kernels seen;
  for (const ChainSpec& spec : gpu::hammered_chains()) {
    CAPTURE(gpu::to_string(spec));
    DeviceChain chain(spec);
    check_first(chain);
    seen.insert(gpu::chosen_kernel(chain.executable));
    const Images images(chain.executable, chain.arena);
    const OwnStream stream;
    Hammer hammer;
    bool is_enqueued = true;
    for (int i = 0; i < kReplays && is_enqueued; ++i)
      is_enqueued = hammer.enqueue(chain.executable, chain.arena, images, stream.get());
    CHECK(is_enqueued);
    CHECK(hammer.different() == 0);
    MESSAGE(kReplays, " replays, every word compared on the device after each, ", chain.summary());
  }
  check_all_in(seen);
}

TEST_CASE("10,000 replays of two clones, by turns on two streams, give the bits of the original") {
  Kernels seen;
  for (const ChainSpec& spec : gpu::hammered_chains()) {
    CAPTURE(gpu::to_string(spec));
    DeviceChain chain(spec);
    check_first(chain);
    seen.insert(gpu::chosen_kernel(chain.executable));
    const Images images(chain.executable, chain.arena);
    struct Clone {
      explicit Clone(DeviceChain& chain) : arena(chain.now) {
        arena.upload(chain.now);
        ai::Result<ai::Executable> made = chain.executable.clone({chain.arena.to(arena)});
        REQUIRE_MESSAGE(made.ok(), made.status().to_string());
        executable = std::make_unique<ai::Executable>(std::move(made).value());
      }
      Arena arena;
      OwnStream stream;
      std::unique_ptr<ai::Executable> executable;
    };
    Clone first(chain);
    Clone second(chain);
    CHECK(first.executable->nodes().size() == chain.executable.nodes().size());
    Hammer hammer;
    bool is_enqueued = true;
    for (int i = 0; i < kReplays && is_enqueued; ++i) {
      Clone& clone = i % 2 == 0 ? first : second;
      is_enqueued = hammer.enqueue(*clone.executable, clone.arena, images, clone.stream.get());
    }
    CHECK(is_enqueued);
    CHECK(hammer.different() == 0);
    MESSAGE(kReplays, " replays of two clones on two streams, ", chain.summary());
  }
  check_all_in(seen);
}

TEST_CASE("weights that the device overwrites between replays are those that the next one uses") {
  constexpr int kRounds = 500;
  Kernels seen;
  for (const ChainSpec& spec : gpu::hammered_chains()) {
    CAPTURE(gpu::to_string(spec));
    DeviceChain chain(spec);
    CHECK(chain.is_one());
    seen.insert(gpu::chosen_kernel(chain.executable));
    // Two sets of inputs, and what the one executable makes of each.
    std::vector<std::unique_ptr<Images>> sets;
    for (const unsigned seed : {spec.seed, spec.seed + 5000}) {
      ChainSpec reseeded = spec;
      reseeded.seed = seed;
      ChainNetwork values(reseeded);
      chain.reset_with([&](ChainNetwork& network) { network.restore(values); });
      gpu::replay(chain.executable);
      chain.arena.download(chain.now);
      CHECK(chain.verdict().faults == "");
      chain.reset();
      sets.push_back(std::make_unique<Images>(chain.executable, chain.arena));
    }
    // The comparison puts the other set's inputs there, weights among them, right before the next.
    unsigned long long* found = nullptr;
    gpu::require_done(cudaMalloc(&found, sizeof *found), "memory for a count");
    gpu::require_done(cudaMemset(found, 0, sizeof *found), "clearing a count");
    gpu::require_done(cudaMemcpy(chain.arena.words(), sets[0]->before(), chain.arena.bytes(),
                                 cudaMemcpyDeviceToDevice),
                      "the first set");
    gpu::require_done(cudaDeviceSynchronize(), "the first set");
    const OwnStream stream;
    for (int i = 0; i < kRounds; ++i) {
      const Images& now = *sets[static_cast<std::size_t>(i % 2)];
      const Images& next = *sets[static_cast<std::size_t>((i + 1) % 2)];
      gpu::require_good(chain.executable.launch(stream.get()));
      gpu::require_done(
          gpu::enqueue_compare_and_reset(chain.arena.words(), now.after(), next.before(),
                                         now.count(), found, stream.get()),
          "comparison");
    }
    gpu::require_done(cudaStreamSynchronize(stream.get()), "replays");
    unsigned long long different = 0;
    gpu::require_done(cudaMemcpy(&different, found, sizeof different, cudaMemcpyDeviceToHost),
                      "a count");
    (void)cudaFree(found);
    CHECK(different == 0);
    MESSAGE("all weights overwritten ", kRounds, " times between replays, ", chain.summary());
  }
  check_all_in(seen);
}

}  // namespace
