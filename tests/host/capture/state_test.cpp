// Scratch that a step keeps from replay to replay: a count of its own launches.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/intended_leak.hpp"
#include "tuned_program.hpp"

namespace ai::test {
namespace {

/// Y = the number of times that this step has run over its state, the one under way included.
std::shared_ptr<TestStep> counting_step(FakeCuda& fake, const GemmPlan& plan, std::string name,
                                        double takes_us) {
  const GemmForward call = plan.forward();
  void* const state = symbolic::allocate(sizeof(float));
  const MemoryRange kept = range_of(state, sizeof(float));
  const auto body = [&fake, call, state, takes_us](const AddressMap& addresses, Stream stream) {
    auto* const count = static_cast<float*>(addresses(state));
    const Tensor y = addresses(call.Y);
    const auto kernel = [count, y] {
      *count += 1;
      Layer::fill(y, *count);
    };
    return fake.work(stream, cudaGraphNodeTypeKernel, takes_us, kernel) == cudaSuccess
               ? Status()
               : Status(StatusCode::CudaError, "the kernel could not be launched");
  };
  return std::make_shared<TestStep>(std::move(name),
                                    std::vector{range_of(call.A), range_of(call.B)},
                                    std::vector{range_of(call.Y), kept}, body, std::vector{kept});
}

/// Two layers of one problem, each with a state of its own.
struct Counting {
  Counting()
      : backend([this](const GemmPlan& plan) {
          Task task;
          task.name = "forward";
          task.candidates = {candidate("quick", counting_step(fake, plan, "quick", 2)),
                             candidate("plain", counting_step(fake, plan, "plain", 4))};
          return std::vector<Task>{task};
        }) {
    for (int i = 0; i < 2; ++i) {
      layers.emplace_back(fake, 3, 5, 7);
      REQUIRE(program.add(layers.back().plan()).ok());
    }
  }
  Executable capture(bool measure) {
    Result<Executable> made =
        detail::capture_with(FakeCuda::api(), backend, program, {}, settings(fake, measure, 10.0));
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return std::move(*made);
  }
  [[nodiscard]] bool hold(float count) const {
    return layers[0].y() == count && layers[1].y() == count;
  }

  FakeCuda fake;
  std::vector<Layer> layers;
  FakeBackend backend;
  Program program;
};

TEST_CASE("state is zero at first, whatever tuning did, and kept from replay to replay") {
  for (const bool measure : {false, true}) {
    CAPTURE(measure);
    Counting counting;
    Executable executable = counting.capture(measure);
    // Trials of both candidates agree, since each begins with a state of zero.
    CHECK(executable.nodes()[0].name == "quick");
    for (const float count : {1.0F, 2.0F, 3.0F}) {
      REQUIRE(executable.launch(nullptr).ok());
      CHECK(counting.hold(count));
    }
  }
}

TEST_CASE("a clone has a state of its own") {
  Counting counting;
  Executable first = counting.capture(true);
  REQUIRE(first.launch(nullptr).ok());
  Result<Executable> second = first.clone({});
  REQUIRE_MESSAGE(second.ok(), second.status().to_string());
  REQUIRE(second->launch(nullptr).ok());
  CHECK(counting.hold(1));
  REQUIRE(first.launch(nullptr).ok());
  CHECK(counting.hold(2));
}

TEST_CASE("where scratch could not be filled nothing is timed over it") {
  Counting counting;
  counting.fake.fail("memset_2d_async", 1, cudaErrorUnknown);
  Executable executable = counting.capture(true);
  CHECK(executable.tuning().candidates_timed == 0);
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(counting.hold(1));
}

TEST_CASE("state that cannot be cleared is an error of the capture") {
  Counting counting;
  counting.fake.fail("memset_2d_async", 1, cudaErrorUnknown);
  const Result<Executable> made =
      detail::capture_with(FakeCuda::api(), counting.backend, counting.program, {},
                           settings(counting.fake, false, 10.0));
  REQUIRE_FALSE(made.ok());
  CHECK(made.status().code() == StatusCode::CudaError);
}

/// What is left after an executable with cooperative kernels was destroyed in flight. `failing`:
/// the call of the driver that fails then.
std::string left_after_destruction(const std::string& failing) {
  Counting counting;
  counting.fake.driver_symbols = {"cuGraphKernelNodeGetParams", "cuGraphExecKernelNodeSetParams"};
  counting.fake.cooperative_kernels = true;
  {
    Executable executable = counting.capture(false);
    REQUIRE(executable.launch(counting.fake.make_stream()).ok());
    CHECK(counting.hold(1));
    for (Layer& layer : counting.layers) Layer::fill(layer.call.Y, -1.0F);
    if (!failing.empty()) counting.fake.fail(failing, 1, cudaErrorUnknown);
  }
  CHECK(counting.hold(-1));
  CHECK(counting.fake.count("graph_node_set_enabled") == 0);
  CHECK(counting.fake.count("graph_retain_user_object") == 0);
  return settled(counting.fake);
}

TEST_CASE("B9: cooperative kernels in flight are left to a launch in which they do nothing") {
  CHECK(left_after_destruction("") == "");
}

TEST_CASE("B9: where cooperative kernels cannot be emptied, memory is never freed") {
  const support::IntendedLeak leak;
  for (const char* failing : {"cuGraphKernelNodeGetParams", "cuGraphExecKernelNodeSetParams"}) {
    CAPTURE(failing);
    CHECK(left_after_destruction(failing).find("bytes of pool memory left; ") != std::string::npos);
  }
}

TEST_CASE("B9: without those calls of the driver CUDA keeps what cooperative kernels use") {
  Counting counting;
  counting.fake.cooperative_kernels = true;
  {
    Executable executable = counting.capture(false);
    REQUIRE(executable.launch(counting.fake.make_stream()).ok());
  }
  CHECK(counting.fake.count("graph_retain_user_object") > 0);
  CHECK(settled(counting.fake) == "");
}

TEST_CASE("a launch in flight with a cooperative kernel has to be waited for before some moves") {
  Counting counting;
  counting.fake.driver_symbols = {"cuGraphKernelNodeGetParams", "cuGraphExecKernelNodeSetParams"};
  counting.fake.cooperative_kernels = true;
  Executable executable = counting.capture(false);
  REQUIRE(executable.launch(counting.fake.make_stream()).ok());
  // The second layer comes to read what the first one writes: a graph with another order.
  const GemmForward& first = counting.layers[0].call;
  const GemmForward& second = counting.layers[1].call;
  const Rebinding move{second.B.data, first.Y.data};
  const Status refused = executable.rebind({move});
  CHECK(refused.code() == StatusCode::Invalid);
  CHECK(refused.message().find("a cooperative kernel") != std::string::npos);
}

}  // namespace
}  // namespace ai::test
