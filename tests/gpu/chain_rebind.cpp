// Networks in one kernel whose operands move to other memory, also where the moves tie together
// what the kernel takes for apart.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chain_device.hpp"
#include "lifecycle_kernels.hpp"
#include "rebind_support.hpp"

namespace {

using gpu::Arena;
using gpu::ChainLayer;
using gpu::ChainNetwork;
using gpu::ChainSpec;
using gpu::DeviceChain;

/// All matrices but the last Y are squares of one size, so that each may lie where another does.
constexpr std::int64_t kSide = 32;
ChainSpec squares() {
  return gpu::plain_chain({kSide, kSide, kSide, kSide, 8}, ai::ActKind::Tanh, kSide);
}

TEST_CASE("x, a middle W and Ys of a chain move to other memory, and the old is left alone") {
  for (const std::int64_t offset : {0, 1}) {
    CAPTURE(offset);
    DeviceChain chain(squares());
    CHECK(chain.is_one());
    chain.run();
    CHECK(chain.verdict().faults == "");
    ChainSpec elsewhere_spec = squares();
    elsewhere_spec.seed = 2;
    elsewhere_spec.offset = offset;
    for (ChainLayer& layer : elsewhere_spec.layers) layer.offset = offset;
    ChainNetwork elsewhere(elsewhere_spec);
    ChainNetwork written(elsewhere_spec);
    Arena arena(written);
    arena.upload(written);

    const auto& from = chain.now;
    const auto& to = written;
    const auto move = [&](const support::Buffer& here, const support::Buffer& there) {
      return ai::Rebinding{chain.arena.at(here), arena.at(there)};
    };
    gpu::rebind(chain.executable,
                {move(from.x, to.x), move(from.layers[1].b, to.layers[1].b),
                 move(from.layers[1].y, to.layers[1].y), move(from.last(), to.last())});
    chain.reset();
    gpu::replay(chain.executable);
    chain.arena.download(chain.now);
    arena.download(written);

    ChainNetwork mixed = chain.now;
    mixed.x = written.x;
    mixed.layers[1].b = written.layers[1].b;
    mixed.layers[1].y = written.layers[1].y;
    mixed.layers.back().y = written.last();
    CHECK(gpu::check_layers(mixed).faults == "");
    const ChainNetwork fresh(squares());
    CHECK(chain.now.layers[1].y.has_same_bits(fresh.layers[1].y));
    CHECK(chain.now.last().has_same_bits(fresh.last()));
    CHECK(written.layers[1].y.canaries_are_intact());
    CHECK(written.last().canaries_are_intact());
    for (const std::size_t l : {0U, 2U}) {
      CHECK(written.layers[l].y.has_same_bits(elsewhere.layers[l].y));
      CHECK(written.layers[l].b.has_same_bits(elsewhere.layers[l].b));
    }
    if (offset == 0) CHECK(chain.is_one());
    MESSAGE("x, W, Y and the last Y moved, offset ", offset, ", ", chain.summary());
  }
}

/// Runs `executable` from the first values of `chain` and brings back what it left.
void run_moved(DeviceChain& chain, ai::Executable& executable) {
  chain.reset();
  gpu::replay(executable);
  chain.arena.download(chain.now);
}

/// Moves what is at `from` to `to` in the executable of a chain, or in a clone of it; then
/// `check(chain)` looks at the results.
template <typename Check>
void check_tied(const std::string& what, const support::Buffer& (*from)(const ChainNetwork&),
                const support::Buffer& (*to)(const ChainNetwork&), Check&& check) {
  DeviceChain chain(squares());
  CAPTURE(what);
  const ai::Rebinding move{chain.arena.at(from(chain.now)), chain.arena.at(to(chain.now))};
  CHECK(chain.is_one());
  {
    ai::Result<ai::Executable> clone = chain.executable.clone({move});
    REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
    run_moved(chain, *clone);
    INFO("a clone");
    check(chain);
  }
  chain.run();
  CHECK(chain.verdict().faults == "");
  gpu::rebind(chain.executable, {move});
  for (int i = 0; i < 3; ++i) {
    run_moved(chain, chain.executable);
    INFO("rebound");
    check(chain);
  }
  MESSAGE(what, ": right, afterwards ", gpu::nodes_of(chain.executable));
}

TEST_CASE(
    "a rebind that makes W of layer 3 what layer 1 writes gives what the plans give in turn") {
  check_tied(
      "W of layer 3 is Y of layer 1",
      [](const ChainNetwork& network) -> const support::Buffer& { return network.layers[2].b; },
      [](const ChainNetwork& network) -> const support::Buffer& { return network.layers[0].y; },
      [](const DeviceChain& chain) {
        ChainNetwork mixed = chain.now;
        mixed.layers[2].b = chain.now.layers[0].y;
        CHECK(gpu::check_layers(mixed).faults == "");
      });
}

TEST_CASE("a rebind that makes Y of layer 3 what layer 1 reads gives what the plans give in turn") {
  check_tied(
      "Y of layer 3 is W of layer 1",
      [](const ChainNetwork& network) -> const support::Buffer& { return network.layers[2].y; },
      [](const ChainNetwork& network) -> const support::Buffer& { return network.layers[0].b; },
      [](const DeviceChain& chain) {
        ChainNetwork mixed = chain.now;
        const ChainNetwork first(chain.now.spec);
        mixed.layers[0].b = first.layers[0].b;
        mixed.layers[2].y = chain.now.layers[0].b;
        CHECK(gpu::check_layers(mixed).faults == "");
      });
}

TEST_CASE("a rebind that makes the last Y what layer 1 reads gives what the plans give in turn") {
  // X [32,32] becomes the home of Y of layer 3, which layer 4 reads.
  check_tied(
      "Y of layer 3 is X",
      [](const ChainNetwork& network) -> const support::Buffer& { return network.layers[2].y; },
      [](const ChainNetwork& network) -> const support::Buffer& { return network.x; },
      [](const DeviceChain& chain) {
        ChainNetwork mixed = chain.now;
        mixed.x = ChainNetwork(chain.now.spec).x;
        mixed.layers[2].y = chain.now.x;
        CHECK(gpu::check_layers(mixed).faults == "");
      });
}

/// A chain with a step of the caller's between layers 1 and 2, which doubles `apart` in place.
struct Interrupted {
  Interrupted() : now(squares()), arena(now), apart(kSide * kSide, 1.0F) {
    ai::Program program;
    gpu::ChainBuilder builder(now, arena);
    builder.add(program, 0, 1);
    ai::UserStep step;
    step.name = "double";
    step.reads = step.writes = {ai::make_tensor_2d(apart.get(), {kSide, kSide})};
    step.cuda = [](const ai::StepContext& context) {
      return gpu::to_status(gpu::enqueue_scale(static_cast<float*>(context.writes[0].data),
                                               kSide * kSide, 2.0F, context.stream));
    };
    gpu::require_good(program.add(std::move(step)));
    builder.add(program, 1, now.depth());
    executable.push_back(gpu::captured_as(program, gpu::measured()));
  }
  /// A replay from the first values; what it left is in `now`.
  void run() {
    ChainNetwork first(now.spec);
    now.restore(first);
    arena.upload(now);
    gpu::replay(executable.front());
    arena.download(now);
  }
  /// The layers, W of layer 2 being what the step left of it.
  void check() { CHECK(gpu::check_layers(now).faults == ""); }

  ChainNetwork now;
  Arena arena;
  gpu::Floats apart;
  std::vector<ai::Executable> executable;
};

TEST_CASE(
    "a user step between two plans of a run keeps its place where a rebind ties it to a later "
    "plan") {
  Interrupted plain;
  plain.run();
  plain.check();
  CHECK(plain.executable.front().nodes().size() == 2);
  MESSAGE("a user step between two plans of a run: ", plain.executable.front().nodes().size(),
          " nodes, first ", plain.executable.front().nodes().front().name);

  Interrupted weights;
  const ChainNetwork first(squares());
  const support::Buffer& w = weights.now.layers[1].b;
  gpu::rebind(weights.executable.front(), {{weights.apart.get(), weights.arena.at(w)}});
  weights.run();
  CHECK(w.at(0, 0) == 2.0F * first.layers[1].b.at(0, 0));
  weights.check();
  MESSAGE("it doubles W of the later plan after a rebind: ",
          weights.executable.front().nodes().size(), " nodes");

  Interrupted output;
  const support::Buffer& y = output.now.layers[1].y;
  gpu::rebind(output.executable.front(), {{output.apart.get(), output.arena.at(y)}});
  output.run();
  output.check();
  MESSAGE("it doubles Y of the later plan, before that writes it, after a rebind: ",
          output.executable.front().nodes().size(), " nodes");
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
