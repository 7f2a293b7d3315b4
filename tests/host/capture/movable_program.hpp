#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_program.hpp"

namespace ai::test {

/// Y = halve(relu(X B1)) B2 through a temporary, with scratch of its own. "wide" can serve operands
/// in fours of floats only, "narrow" any.
struct MovableProgram {
  explicit MovableProgram(FakeCuda& runtime, cudaGraphNodeType user = cudaGraphNodeTypeKernel)
      : fake(runtime),
        first(runtime, 2, 4, 3),
        second(runtime, 2, 2, 4),
        backend([this](const GemmPlan& plan) { return lower(plan); }) {
    const Result<Tensor> hidden = program.temporary(first.call.Y.desc);
    REQUIRE(hidden.ok());
    first.call.Y = *hidden;
    second.call.A = *hidden;
    REQUIRE(program.add(first.plan()).ok());
    UserStep halve;
    halve.name = "halve";
    halve.reads = {*hidden};
    halve.writes = {*hidden};
    halve.cuda = [this, user](const StepContext& context) -> Status {
      auto* const data = static_cast<float*>(context.writes[0].data);
      for (int i = 0; i < user_nodes; ++i) {
        (void)fake.work(context.stream, i == 0 ? user : cudaGraphNodeTypeKernel, 1, [data, i] {
          for (int j = 0; i == 0 && j < 8; ++j) data[j] *= 0.5F;
        });
      }
      return user_status;
    };
    REQUIRE(program.add(std::move(halve)).ok());
    REQUIRE(program.add(second.plan()).ok());
    x = first.call.A.data;
    y = second.call.Y.data;
  }

  std::vector<Task> lower(const GemmPlan& plan) {
    ++lowered;
    const GemmForward& call = plan.forward();
    Task task;
    task.name = "forward";
    task.candidates.push_back({"wide", {}, true, {}});
    for (const Tensor* operand : {&call.A, &call.B, &call.Y}) {
      if (reinterpret_cast<std::uintptr_t>(operand->data) % 16 != 0) {
        task.candidates[0].reason = "it loads in fours";
      }
    }
    if (task.candidates[0].applicable()) {
      wide.push_back(scratch_step());
      wide.push_back(gemm_step(fake, plan, "wide", 1));
      task.candidates[0].steps = {wide[wide.size() - 2], wide.back()};
    }
    task.candidates.push_back(candidate("narrow", gemm_step(fake, plan, "narrow", 2)));
    return {task};
  }

  std::shared_ptr<TestStep> scratch_step() {
    const MemoryRange scratch = range_of(symbolic::allocate(512), 512);
    return std::make_shared<TestStep>(
        "fill", std::vector<MemoryRange>{}, std::vector{scratch},
        [this, scratch](const AddressMap& map, Stream stream) {
          void* const data = map(reinterpret_cast<const void*>(scratch.begin));
          REQUIRE(!symbolic::is_symbolic(data));
          const cudaError_t code = patches() ? fake.work(stream, cudaGraphNodeTypeKernel, 1,
                                                         [data] { std::memset(data, 1, 512); })
                                             : FakeCuda::api().memset_async(data, 1, 512, stream);
          return code == cudaSuccess ? Status() : Status(StatusCode::CudaError, "memset");
        });
  }

  Executable capture() {
    Result<Executable> made = capture_fake(fake, backend, program);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return std::move(*made);
  }

  /// A new buffer of the fake for `count` floats, each `value`, `offset` floats past its begin.
  float* buffer(std::size_t count, float value, std::size_t offset = 0) const {
    auto* const data = static_cast<float*>(fake.operand((count + offset) * sizeof(float))) + offset;
    std::fill_n(data, count, value);
    return data;
  }

  /// Whether a rebind can record the steps that move alone: then all of the GEMMs' are kernels.
  [[nodiscard]] bool patches() const { return !fake.driver_symbols.empty(); }

  FakeCuda& fake;
  Layer first;
  Layer second;
  FakeBackend backend;
  Program program;
  void* x = nullptr;
  void* y = nullptr;
  std::vector<std::shared_ptr<TestStep>> wide;  // two for each layer
  int lowered = 0;
  int user_nodes = 1;
  Status user_status = {};
};

/// Of X all `value`: (3 * value * 2 / 2) * 4 * 2.
inline float expected_y(float value) {
  return 24.0F * value;
}

/// What a launch leaves at `y`, which is spoiled before.
inline float launched(FakeCuda& fake, Executable& executable, void* y) {
  *static_cast<float*>(y) = -7.0F;
  const Status status = executable.launch(fake.make_stream());
  REQUIRE_MESSAGE(status.ok(), status.to_string());
  return *static_cast<float*>(y);
}

inline const BoundOperand* operand_at(const Executable& executable, const void* data) {
  for (const BoundOperand& operand : executable.operands()) {
    if (operand.tensor.data == data) return &operand;
  }
  return nullptr;
}

inline bool says(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

}  // namespace ai::test
