// Scratch that a step keeps from replay to replay: a count of its own launches.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace ai::test
