// The kernels of a chain that are launched cooperatively and keep state from launch to launch:
// rebound, enqueued, beside each other in one graph, and destroyed while a launch is in flight.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chain_hammer.hpp"
#include "layer.hpp"
#include "lifecycle_kernels.hpp"
#include "support/temporary_folder.hpp"

namespace {

using gpu::Arena;
using gpu::ChainNetwork;
using gpu::ChainSpec;
using gpu::DeviceChain;
using gpu::Hammer;
using gpu::Images;
using gpu::Layer;
using gpu::OwnStream;
using support::Buffer;

constexpr long long kMillisecond = 1'000'000;

struct Kind {
  const char* kernel;
  ChainSpec spec;
};
Kind grid() {
  return {"grid", gpu::hidden(gpu::plain_chain({479, 1024, 1024, 256, 3}, ai::ActKind::ReLU, 1))};
}
Kind tiles() {
  return {"tiles", gpu::plain_chain({235, 1024, 1024, 64}, ai::ActKind::GELUTanh, 128)};
}

/// Each network is measured once; later captures, also of other test cases, find it in a file.
ai::CaptureOptions options(double budget_s = 4.0) {
  static const TemporaryFolder folder;
  return gpu::measured(budget_s, folder / "tuning.json");
}

/// A captured network whose first replay was right, at its first values again.
struct RightChain : DeviceChain {
  explicit RightChain(const Kind& kind) : DeviceChain(kind.spec, options()) {
    CHECK_MESSAGE(gpu::chosen_kernel(executable) == kind.kernel, gpu::run_lines(executable));
    CHECK(is_one());
    run();
    CHECK(verdict().faults == "");
    reset();
  }
};

/// x, a middle W, the last Y, and the middle one where it is written.
std::vector<Buffer*> moving(ChainNetwork& network) {
  ChainNetwork::Layer& middle = network.layers[1];
  std::vector<Buffer*> buffers{&network.x, &middle.b, &network.layers.back().y};
  if (!network.spec.layers[1].is_hidden) buffers.push_back(&middle.y);
  return buffers;
}

/// `network` with what moves as it is in `from`.
ChainNetwork mixed_with(ChainNetwork network, ChainNetwork& from) {
  const std::vector<Buffer*> to = moving(network);
  const std::vector<Buffer*> now = moving(from);
  for (std::size_t i = 0; i < to.size(); ++i) *to[i] = *now[i];
  return network;
}

bool moving_have_same_bits(ChainNetwork& one, ChainNetwork& other) {
  const std::vector<Buffer*> ones = moving(one);
  const std::vector<Buffer*> others = moving(other);
  return std::equal(ones.begin(), ones.end(), others.begin(), others.end(),
                    [](const Buffer* a, const Buffer* b) { return a->has_same_bits(*b); });
}

/// Names of what was written in `after` beside the elements of the outputs that moved there.
std::string stray_writes(ChainNetwork& before, ChainNetwork& after) {
  const std::vector<Buffer*> moved = moving(after);
  std::string names = support::damage(before, after);
  std::vector<Buffer*> old;
  before.for_each([&](const char*, Buffer& buffer, bool) { old.push_back(&buffer); });
  std::size_t i = 0;
  after.for_each([&](const char* name, Buffer& buffer, bool) {
    const bool has_moved = std::find(moved.begin(), moved.end(), &buffer) != moved.end();
    if (!has_moved && !buffer.has_same_bits(*old[i])) names += std::string(name) + " ";
    ++i;
  });
  return names;
}

TEST_CASE("operands of a cooperative kernel move while a launch is in flight") {
  for (const Kind& kind : {grid(), tiles()}) {
    CAPTURE(kind.kernel);
    RightChain chain(kind);
    chain.run();
    ChainNetwork first = chain.now;
    ChainSpec other_spec = kind.spec;
    other_spec.seed = 2;
    ChainNetwork other(other_spec);
    ChainNetwork written(other_spec);
    Arena arena(written);
    arena.upload(written);
    std::vector<ai::Rebinding> moves;
    std::vector<ai::Rebinding> back;
    const std::vector<Buffer*> from = moving(chain.now);
    const std::vector<Buffer*> to = moving(written);
    for (std::size_t i = 0; i < from.size(); ++i) {
      moves.push_back({chain.arena.at(*from[i]), arena.at(*to[i])});
      back.push_back({arena.at(*to[i]), chain.arena.at(*from[i])});
    }
    // Loads what is loaded at first use, which may wait for all that runs.
    gpu::require_good(chain.executable.rebind(moves));
    gpu::require_good(chain.executable.rebind(back));

    chain.reset();
    const OwnStream stream;
    gpu::require_done(gpu::enqueue_spin(100 * kMillisecond, stream.get()), "a kernel before it");
    gpu::require_good(chain.executable.launch(stream.get()));
    gpu::require_good(chain.executable.rebind(moves));
    CHECK(cudaStreamQuery(stream.get()) == cudaErrorNotReady);
    (void)cudaGetLastError();
    gpu::require_good(chain.executable.launch(stream.get()));
    gpu::require_good(chain.executable.wait());
    chain.arena.download(chain.now);
    arena.download(written);
    // The first launch wrote this, and the second left it alone.
    CHECK(moving_have_same_bits(chain.now, first));
    CHECK(gpu::check_layers(mixed_with(chain.now, written)).faults == "");
    CHECK(stray_writes(other, written) == "");

    ChainNetwork in_flight = written;
    ChainNetwork poisoned(kind.spec);
    chain.reset();
    written.restore(other);
    arena.upload(written);
    gpu::replay(chain.executable, stream.get());
    chain.arena.download(chain.now);
    arena.download(written);
    CHECK(moving_have_same_bits(chain.now, poisoned));
    CHECK(moving_have_same_bits(written, in_flight));
    CHECK(gpu::check_layers(mixed_with(chain.now, written)).faults == "");
    CHECK(stray_writes(other, written) == "");
    CHECK(gpu::chosen_kernel(chain.executable) == kind.kernel);
    CHECK(chain.is_one());
    CHECK(cudaGetLastError() == cudaSuccess);
    MESSAGE(from.size(), " operands moved in flight, ", chain.summary());
  }
}

TEST_CASE("launch() and enqueue() of a cooperative kernel by turns on one stream: the same bits") {
  constexpr int kTurns = 200;
  for (const Kind& kind : {grid(), tiles()}) {
    CAPTURE(kind.kernel);
    RightChain chain(kind);
    const Images images(chain.executable, chain.arena);
    Hammer hammer;
    const OwnStream stream;
    for (int i = 0; i < kTurns; ++i) {
      CAPTURE(i);
      gpu::require_good(i % 2 == 0 ? chain.executable.launch(stream.get())
                                   : chain.executable.enqueue(stream.get()));
      REQUIRE(hammer.enqueue_compare(chain.arena, images, stream.get()));
    }
    gpu::require_good(chain.executable.wait());
    CHECK(hammer.different() == 0);
    MESSAGE(kTurns, " turns of launch() and enqueue(), ", chain.summary());
  }
}

/// No chain kernel waits for another node.
bool are_parallel(const ai::Executable& executable) {
  return std::all_of(
      executable.nodes().begin(), executable.nodes().end(), [](const ai::Node& node) {
        return node.name.find("chain") == std::string::npos || node.depends_on.empty();
      });
}

/// Both networks in one graph, with `layer` and a step that doubles its Y where it is given.
void check_beside(RightChain& one, RightChain& other, const Layer* layer) {
  constexpr int kBatches = 5;
  constexpr int kReplays = 100;
  ai::Program program;
  gpu::ChainBuilder(one.now, one.arena).add(program, 0, one.now.depth());
  if (layer != nullptr) {
    const auto plan = ai::plan_forward(layer->call());
    gpu::require_good(plan.status());
    gpu::require_good(program.add(*plan));
    gpu::require_good(program.add(gpu::user_step(*layer, [](const ai::StepContext& context) {
      return gpu::to_status(gpu::enqueue_scale(static_cast<float*>(context.writes[0].data),
                                               Layer::kM * Layer::kN, 2.0F, context.stream));
    })));
    layer->clear();
  }
  gpu::ChainBuilder(other.now, other.arena).add(program, 0, other.now.depth());
  // No time to try lanes: the order is that of the data flow, and the kernels are recalled.
  ai::Executable executable = gpu::captured_as(program, options(1e-6));
  CAPTURE(executable.explain());
  CAPTURE(executable.dot());
  CHECK(gpu::chosen_kernels(executable).size() == 2);
  CHECK(executable.nodes().size() >= (layer != nullptr ? 4 : 2));
  CHECK(are_parallel(executable));

  gpu::replay(executable);
  for (RightChain* chain : {&one, &other}) {
    chain->arena.download(chain->now);
    CHECK(chain->verdict().faults == "");
    chain->reset();
  }
  const Images of_one(executable, one.arena);
  other.reset();  // written meanwhile
  const Images of_other(executable, other.arena);
  one.reset();
  Hammer hammer;
  const OwnStream stream;
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int i = 0; i < kReplays; ++i) {
      REQUIRE(hammer.enqueue(executable, one.arena, of_one, stream.get()));
      REQUIRE(hammer.enqueue_compare(other.arena, of_other, stream.get()));
    }
    REQUIRE(gpu::ends_within(stream.get(), 10.0));
  }
  (void)cudaGetLastError();  // a stream that was asked too early
  gpu::require_good(executable.wait());
  CHECK(hammer.different() == 0);
  if (layer != nullptr) CHECK(layer->holds(2.0F * Layer::kK));
  CHECK(cudaGetLastError() == cudaSuccess);
  MESSAGE(kBatches * kReplays, " replays of two networks in one graph of ",
          executable.nodes().size(), " nodes: ", gpu::chosen_kernels(executable).front(), " and ",
          gpu::chosen_kernels(executable).back());
}

TEST_CASE("two cooperative kernels on parallel branches of one graph give the same bits") {
  RightChain one(grid());
  const Layer layer;
  {
    RightChain other(tiles());
    check_beside(one, other, nullptr);
    one.reset();
    other.reset();
    check_beside(one, other, &layer);
  }
  one.reset();
  Kind second = grid();
  second.spec = gpu::hidden(gpu::plain_chain({500, 1024, 1024, 200, 5}, ai::ActKind::ReLU, 1));
  RightChain other(second);
  check_beside(one, other, nullptr);
}

TEST_CASE("cooperative kernels in flight outlive their executables, and CUDA is well afterwards") {
  constexpr int kTimes = 50;
  const Layer layer;
  for (const Kind& kind : {grid(), tiles()}) {
    CAPTURE(kind.kernel);
    RightChain chain(kind);
    const Images images(chain.executable, chain.arena);
    const ai::Program program = gpu::program_of(chain.now, chain.arena);
    Hammer hammer;
    const OwnStream stream;
    int in_flight = 0;
    for (int i = 0; i < kTimes; ++i) {
      CAPTURE(i);
      std::optional<ai::Executable> dying;
      if (i % 2 == 0) {
        dying = gpu::captured_as(program, options());
      } else {
        ai::Result<ai::Executable> clone = chain.executable.clone();
        gpu::require_good(clone.status());
        dying = std::move(clone).value();
      }
      CHECK(gpu::chosen_kernel(*dying) == kind.kernel);
      gpu::require_done(gpu::enqueue_spin(2 * kMillisecond, stream.get()), "a kernel before it");
      gpu::require_good(dying->launch(stream.get()));
      dying.reset();
      CHECK(cudaGetLastError() == cudaSuccess);
      if (cudaStreamQuery(stream.get()) == cudaErrorNotReady) {
        (void)cudaGetLastError();
        ++in_flight;
      }
      REQUIRE(hammer.enqueue_compare(chain.arena, images, stream.get()));
      layer.clear();
      ai::Executable small = gpu::captured(layer.program());
      gpu::replay(small);
      REQUIRE(layer.holds(Layer::kK));
    }
    CHECK(in_flight > kTimes / 2);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(hammer.different() == 0);
    ai::Executable fresh = gpu::captured_as(program, options());
    chain.reset();
    gpu::replay(fresh);
    chain.arena.download(chain.now);
    CHECK(chain.verdict().faults == "");
    MESSAGE(in_flight, " of ", kTimes, " were destroyed in flight, ", chain.summary());
  }
}

TEST_CASE("destroying an executable with a chain kernel in flight twice leaves no error") {
  RightChain chain({"chain", gpu::plain_chain({64, 256, 256, 8}, ai::ActKind::ReLU, 1)});
  const ai::Program program = gpu::program_of(chain.now, chain.arena);
  const OwnStream stream;
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    {
      ai::Executable dying = gpu::captured_as(program, options());
      gpu::require_done(gpu::enqueue_spin(2 * kMillisecond, stream.get()), "a kernel before it");
      gpu::require_good(dying.launch(stream.get()));
      gpu::require_good(dying.launch(stream.get()));
    }
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  chain.arena.download(chain.now);
  CHECK(chain.verdict().faults == "");
}

}  // namespace
