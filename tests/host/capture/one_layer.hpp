#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fake_program.hpp"

namespace ai::test {

/// One layer with scratch of its own, as a program and a backend.
struct OneLayer {
  explicit OneLayer(FakeCuda& runtime, std::size_t scratch_bytes = 1000)
      : fake(runtime), layer(runtime, 2, 2, 3), backend([this, scratch_bytes](const GemmPlan& p) {
          const MemoryRange scratch = range_of(symbolic::allocate(scratch_bytes), scratch_bytes);
          auto writer = std::make_shared<TestStep>(
              "split", std::vector<MemoryRange>{}, std::vector{scratch},
              [this, scratch](const AddressMap& addresses, Stream stream) {
                workspace = addresses(reinterpret_cast<const void*>(scratch.begin));
                recorded_on = fake.device;
                (void)fake.work(stream, cudaGraphNodeTypeKernel, 1, {});
                return Status();
              });
          Candidate made{"split", {}, true, {writer, gemm_step(fake, p, "gemm", 1)}};
          return std::vector<Task>{{"forward", {made}}};
        }) {
    REQUIRE(program.add(layer.plan()).ok());
  }

  Executable capture() {
    Result<Executable> made = capture_fake(fake, backend, program);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return std::move(*made);
  }

  /// A node that cannot be switched off: the graph has to retain what its nodes use.
  void add_host_function() {
    UserStep step;
    step.name = "host function";
    step.writes = {layer.call.Y};
    step.cuda = [this](const StepContext& context) -> Status {
      (void)fake.work(context.stream, cudaGraphNodeTypeHost, 1, {});
      return {};
    };
    REQUIRE(program.add(std::move(step)).ok());
  }

  FakeCuda& fake;
  Layer layer;
  FakeBackend backend;
  Program program;
  void* workspace = nullptr;
  int recorded_on = -1;
};

}  // namespace ai::test
