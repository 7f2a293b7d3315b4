#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/direct_path.hpp"
#include "cuda/error.hpp"
#include "fake_program.hpp"

/// The direct path over the fake runtime.
namespace ai::test {

using detail::DirectCall;
using detail::DirectPath;
using detail::StreamScratch;

/// What the backend behind the path gives for a plan; the path makes one backend after the other.
inline std::function<std::vector<Task>(const GemmPlan&)>& lowering() {
  static std::function<std::vector<Task>(const GemmPlan&)> function;
  return function;
}

/// A direct path whose candidates compute A B: "direct" straight into Y, and "via scratch" into
/// scratch of its own first.
class Path {
 public:
  explicit Path(FakeCuda& fake)
      : fake_(fake), path_(std::make_unique<DirectPath>(FakeCuda::api(), &Path::make_backend)) {
    lowering() = [this](const GemmPlan& plan) { return tasks(plan); };
  }

  Status run(const GemmForward& call, Stream stream) {
    return path_->run(DirectCall(call), stream);
  }
  /// The same as a call that this thread has not made before, so that no graph comes of it.
  Status run_first(const GemmForward& call, Stream stream) {
    path_->set_limit(path_->info().limit);
    return run(call, stream);
  }
  DirectPath* operator->() const { return path_.get(); }
  void destroy() { path_.reset(); }

  bool scratch_first = false;  ///< which candidate stands first
  bool scratch_only = false;
  std::optional<Flaw> doubtful = {};  ///< stands before both, untrusted
  int doubtful_runs = 0;
  Status prepare_status = {};
  int lowered = 0;

 private:
  static std::unique_ptr<Backend> make_backend(int) {
    return std::make_unique<FakeBackend>(lowering());
  }

  std::vector<Task> tasks(const GemmPlan& plan) {
    ++lowered;
    Task task;
    task.name = "forward Y";
    auto step = gemm_step(fake_, plan, "direct", 1.0);
    step->prepare_status = prepare_status;
    Candidate straight = candidate("direct", std::move(step));
    if (doubtful) {
      task.candidates.push_back(candidate(
          "doubtful", gemm_step(fake_, plan, "doubtful", 1.0, *doubtful, &doubtful_runs), false));
    }
    if (scratch_first || scratch_only) task.candidates.push_back(via_scratch(plan));
    if (!scratch_only) task.candidates.push_back(std::move(straight));
    return {std::move(task)};
  }

  /// A B into scratch, then a copy from there to Y.
  Candidate via_scratch(const GemmPlan& plan) {
    const std::size_t bytes = range_of(plan.forward().Y).end() - range_of(plan.forward().Y).begin;
    void* const scratch = symbolic::allocate(bytes);
    GemmForward inner = plan.forward();
    inner.Y.data = scratch;
    inner.Y.desc.stride = {inner.Y.desc.shape[1], 1};
    const Result<GemmPlan> into_scratch = plan_forward(inner);
    REQUIRE(into_scratch.ok());
    const Tensor from = inner.Y;
    const Tensor to = plan.forward().Y;
    const auto copy = [this, from, to, bytes](const AddressMap& addresses,
                                              Stream stream) -> Status {
      void* const target = addresses(to.data);
      const void* const source = addresses(static_cast<const void*>(from.data));
      const cudaError_t code =
          FakeCuda::api().memcpy_async(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
      if (code == cudaSuccess) return {};
      return cuda::to_status(FakeCuda::api(), code, "cudaMemcpyAsync");
    };
    Candidate made;
    made.name = "via scratch";
    made.steps = {gemm_step(fake_, *into_scratch, "into scratch", 1.0),
                  std::make_shared<TestStep>("copy", std::vector{range_of(from)},
                                             std::vector{range_of(to)}, copy)};
    return made;
  }

  FakeCuda& fake_;
  std::unique_ptr<DirectPath> path_;
};

struct Fixture {
  FakeCuda fake;
  Path path{fake};
  Stream stream = fake.make_stream();

  std::string settle() {
    path.destroy();
    return settled(fake);
  }
};

/// The call `times` times, each of which has to give `expected` anew.
inline void repeat(Fixture& f, const Layer& layer, int times, Stream stream) {
  for (int i = 0; i < times; ++i) {
    Layer::fill(layer.call.Y, -1.0F);
    const Status status = f.path.run(layer.call, stream);
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    REQUIRE(layer.y() == 8.0F);
  }
}

}  // namespace ai::test
