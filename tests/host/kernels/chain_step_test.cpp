#include "chain_step.hpp"

#include <algorithm>
#include <utility>

#include "fuse_support.hpp"

using namespace fuse_test;
using ai::MemoryRange;
using ai::kernels::chain::Form;
using ai::kernels::chain::make_chain_step;
using ai::kernels::chain::Network;
using ai::kernels::chain::Shape;

namespace {

std::shared_ptr<ai::cuda::KernelImage> image() {
  ai::cuda::Cubin cubin;
  cubin.image = "machine code";
  return std::make_shared<ai::cuda::KernelImage>(fake_device::api(), cubin);
}

std::shared_ptr<ai::Step> step_of(const PlanRun& run, const Form& form) {
  fake_chain::state() = {};
  fake_chain::state().addresses = 1 + 4 * run.plans.size();
  auto network = ai::kernels::chain::network_of(run.plans, run.keeps_y);
  REQUIRE_MESSAGE(network.ok(), network.status().to_string());
  return make_chain_step(fake_device::api(), run.plans, *network, form, image());
}

bool holds(const std::vector<MemoryRange>& ranges, const ai::Tensor& tensor) {
  const MemoryRange wanted = ai::range_of(tensor);
  return std::any_of(ranges.begin(), ranges.end(), [&](const MemoryRange& range) {
    return range.begin == wanted.begin && range.end() == wanted.end();
  });
}

/// The launch of a step that can be prepared.
fake_chain::Launch launch_of(ai::Step& step, const ai::AddressMap& addresses = {}) {
  const ai::Status prepared = step.prepare();
  REQUIRE_MESSAGE(prepared.ok(), prepared.to_string());
  REQUIRE(step.enqueue(addresses, nullptr).ok());
  return fake_chain::state().launches.back();
}

}  // namespace

TEST_CASE("a chain books what it reads and writes, and nothing of a Y that is not kept") {
  const Chain chain({16, 8, 4, 3}, 2);
  const Matrix z(2, 4);
  PlanRun run = chain.run({false, true, true});
  GemmForward second = chain.calls[1];
  second.Z = z.tensor();
  run.plans[1] = ai::plan_forward(second).value();
  const auto step = step_of(run, Shape{1, 1, 32, 1, false});
  CHECK(step->name() == "chain of 3 layers");
  CHECK(step->reads().size() == 7);
  CHECK(holds(step->reads(), chain.x.tensor()));
  for (std::size_t l = 0; l < 3; ++l) {
    CHECK(holds(step->reads(), chain.w[l].tensor()));
    CHECK(holds(step->reads(), *chain.calls[l].bias));
    CHECK(holds(step->writes(), chain.y[l].tensor()) == (l > 0));
  }
  CHECK(holds(step->writes(), z.tensor()));
  CHECK(step->writes().size() == 3);
}

TEST_CASE("every address goes through the map, and what is not written stays null") {
  const Chain chain({16, 8, 3});
  const Chain other({16, 8, 3});
  const auto step = step_of(chain.run({false, true}), Shape{1, 1, 32, 1, false});
  ai::AddressMap addresses;
  const auto move = [&](const Matrix& from, const Matrix& to, std::size_t count) {
    addresses.add(reinterpret_cast<std::uintptr_t>(from.data()), count * sizeof(float), to.data());
  };
  move(chain.x, other.x, 16);
  move(chain.w[1], other.w[1], 24);
  move(chain.bias[0], other.bias[0], 8);
  move(chain.y[1], other.y[1], 3);
  const fake_chain::Launch launch = launch_of(*step, addresses);
  CHECK(launch.parameter == std::vector<void*>{other.x.data(), chain.w[0].data(), other.w[1].data(),
                                               other.bias[0].data(), chain.bias[1].data(), nullptr,
                                               other.y[1].data(), nullptr, nullptr});
  REQUIRE(step->enqueue({}, nullptr).ok());
  CHECK(fake_chain::state().launches.back().parameter[0] == chain.x.data());
}

TEST_CASE("one block: no cluster, its threads and its shared memory") {
  const Chain chain({16, 8, 3}, 5);
  const Shape shape{2, 1, 64, 1, false};
  const auto step = step_of(chain.run(), shape);
  const fake_chain::Launch launch = launch_of(*step);
  const Network network = ai::kernels::chain::network_of(chain.run().plans, {true, true}).value();
  const int shared = layout_of(network.layers.data(), 2, shape).shared;
  CHECK(launch.blocks == 3);  // slabs of 2 of 5 rows
  CHECK(launch.threads == 64);
  CHECK(launch.shared_bytes == 4 * static_cast<std::size_t>(shared));
  CHECK(launch.cluster == 0);
  CHECK(fake_chain::state().kernels == Names{"chain_kernel"});
  CHECK(
      fake_chain::state().attributes ==
      std::map<cudaFuncAttribute, int>{{cudaFuncAttributeMaxDynamicSharedMemorySize, 4 * shared}});
  CHECK(fake_chain::state().asked.kernel == nullptr);
}

TEST_CASE("clusters: an attribute of the launch, and leave for more blocks than is common") {
  const Chain chain({64, 64, 64}, 5);
  for (const int cluster : {2, 8, 16}) {
    CAPTURE(cluster);
    const auto step = step_of(chain.run(), Shape{4, cluster, 96, 1, true});
    const fake_chain::Launch launch = launch_of(*step);
    CHECK(launch.blocks == 2 * static_cast<unsigned>(cluster));
    CHECK(launch.cluster == static_cast<unsigned>(cluster));
    CHECK(fake_chain::state().attributes.contains(cudaFuncAttributeNonPortableClusterSizeAllowed) ==
          (cluster > 8));
    const fake_chain::Launch& asked = fake_chain::state().asked;
    CHECK(asked.kernel == launch.kernel);
    CHECK(asked.blocks == launch.blocks);
    CHECK(asked.threads == 96);
    CHECK(asked.cluster == launch.cluster);
    CHECK(asked.shared_bytes == launch.shared_bytes);
  }
}

TEST_CASE("a cluster that finds no room is told when the step is prepared") {
  const Chain chain({64, 64, 64});
  const auto step = step_of(chain.run(), Shape{1, 16, 96, 1, false});
  fake_chain::state().clusters = 0;
  const ai::Status status = step->prepare();
  CHECK(status.code() == ai::StatusCode::Unsupported);
  CHECK(status.message().starts_with("a cluster of 16 blocks, each with 96 threads and "));
  CHECK(status.message().ends_with(" bytes of shared memory, finds no room on this device"));
}

TEST_CASE("an image that cannot be loaded is told, and nothing is loaded before it is needed") {
  const Chain chain({64, 64, 64});
  {
    const auto step = step_of(chain.run(), Shape{1, 1, 64, 1, false});
    CHECK(fake_chain::state().loads == 0);
    fake_chain::state().load_error = cudaErrorInvalidKernelImage;
    const ai::Status status = step->prepare();
    CHECK(status.code() == ai::StatusCode::CudaError);
    CHECK(forward_test::contains(status.message(), "cudaLibraryLoadData"));
    fake_chain::state().load_error = cudaSuccess;
    CHECK(step->prepare().ok());
    CHECK(step->prepare().ok());
    CHECK(fake_chain::state().loads == 1);
  }
  CHECK(fake_chain::state().libraries.empty());
}

TEST_CASE("as many layers as a step can have are launched with all their addresses") {
  const std::vector<std::int64_t> widths(ai::kernels::chain::kMostLayers + 1, 2);
  const Chain chain(widths);
  const auto step = step_of(chain.run(), Shape{1, 1, 32, 1, false});
  const fake_chain::Launch launch = launch_of(*step);
  REQUIRE(launch.parameter.size() == 161);
  CHECK(launch.parameter[0] == chain.x.data());
  CHECK(launch.parameter[40 + 40 + 40] == chain.y[39].data());
}

namespace {

/// A step over memory of its own, whose blocks wait for one another: wide layers, some rows.
struct Cooperative {
  Cooperative() {
    const Network network =
        ai::kernels::chain::network_of(chain.run().plans, {true, true, true}).value();
    const ai::kernels::chain::Machine machine{{227 << 10, 255, 16}, 132, 1.98e9, 5.5e12};
    const auto shapes = tiles_shapes(network, machine);
    REQUIRE(!shapes.empty());
    step = step_of(chain.run({false, true, true}), shapes.front());
    bytes = state_bytes(network, shapes.front());
    fake_chain::state().addresses += 1;
  }
  Chain chain{{512, 512, 512, 512}, 64};
  std::shared_ptr<ai::Step> step;
  std::size_t bytes = 0;
};

}  // namespace

TEST_CASE("memory of a step's own: among what it writes, symbolic, its state told apart") {
  const Cooperative made;
  REQUIRE(made.bytes > 0);
  REQUIRE(made.step->state().size() == 1);
  const MemoryRange state = made.step->state()[0];
  CHECK(state.end() - state.begin == made.bytes);
  std::size_t symbolic = 0;
  for (const MemoryRange& range : made.step->writes()) {
    if (!ai::symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin))) continue;
    symbolic += 1;
    CHECK(range.begin == state.begin);
    CHECK(range.end() == state.end());
  }
  CHECK(symbolic == 1);
}

TEST_CASE("memory of a step's own comes behind its operands, and the launch is cooperative") {
  const Cooperative made;
  std::vector<float> place(made.bytes / sizeof(float));
  const MemoryRange state = made.step->state()[0];
  ai::AddressMap addresses;
  addresses.add(state.begin, made.bytes, place.data());
  const fake_chain::Launch launch = launch_of(*made.step, addresses);
  CHECK(launch.cooperative);
  CHECK(launch.blocks <= 132);
  REQUIRE(launch.parameter.size() == 1 + 4 * 3 + 1);
  CHECK(launch.parameter[13] == place.data());
  CHECK(launch.parameter[1 + 3 + 3] == nullptr);  // the Y that is not kept
}

TEST_CASE("blocks that do not find room all at once are told when the step is prepared") {
  for (const bool is_possible : {true, false}) {
    const Cooperative made;
    fake_chain::state().cooperative = is_possible ? 1 : 0;
    fake_chain::state().blocks = is_possible ? 0 : 1;
    const ai::Status status = made.step->prepare();
    CHECK(status.code() == ai::StatusCode::Unsupported);
    CHECK(status.message().starts_with("a cooperative launch of "));
    CHECK(status.message().ends_with(" bytes of shared memory, finds no room on this device"));
  }
}
