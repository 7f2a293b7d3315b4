// The direct path over the fake runtime.
#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/direct_path.hpp"
#include "cuda/error.hpp"
#include "fake_program.hpp"

namespace ai::test {
namespace {

using detail::DirectCall;
using detail::DirectPath;
using detail::StreamScratch;

/// What the backend behind the path gives for a plan; the path makes one backend after the other.
std::function<std::vector<Task>(const GemmPlan&)>& lowering() {
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

TEST_CASE("a direct call is done, and its plan serves the same problem at other addresses") {
  Fixture f;
  const Layer first(f.fake, 2, 3, 4);
  const Layer second(f.fake, 2, 3, 4);
  Layer::fill(second.call.A, 3.0F);
  CHECK(f.path.run(first.call, f.stream).ok());
  CHECK(first.y() == 8.0F);
  CHECK(second.y() == -1.0F);
  CHECK(f.path.run(second.call, f.stream).ok());
  CHECK(second.y(5) == 24.0F);
  CHECK(f.path->info().planned == 1);
  CHECK(f.path->info().plans == 1);
  CHECK(f.path.lowered == 1);
  CHECK(f.settle() == "");
}

TEST_CASE("what a plan depends on tells problems apart: shape, stride, alignment, attributes") {
  Fixture f;
  const Layer layer(f.fake, 2, 4, 4);
  const auto planned_after = [&](const GemmForward& call) {
    const Status status = f.path.run(call, f.stream);
    CHECK_MESSAGE(status.ok(), status.to_string());
    return f.path->info().planned;
  };
  CHECK(planned_after(layer.call) == 1);
  GemmForward call = layer.call;
  call.A.desc.shape = {1, 4};
  call.Y.desc.shape = {1, 4};
  CHECK(planned_after(call) == 2);
  call.Y.data = static_cast<float*>(call.Y.data) + 4;  // 16-byte aligned, not 256
  CHECK(planned_after(call) == 3);
  call.Y.data = static_cast<float*>(layer.call.Y.data) + 1;
  CHECK(planned_after(call) == 4);
  call.attrs.alpha = 0.5F;
  CHECK(planned_after(call) == 5);
  call.attrs.act = ActKind::LeakyReLU;
  CHECK(planned_after(call) == 6);
  call.attrs.leaky_slope = -1.0F;
  CHECK(planned_after(call) == 7);
  call.A.desc.stride = {4, 1};
  CHECK(planned_after(call) == 7);
  CHECK(planned_after(layer.call) == 7);
  CHECK(f.settle() == "");
}

TEST_CASE(
    "C4: a candidate that is not trusted is checked on scratch before a call is done with it") {
  for (const Flaw flaw : {Flaw::None, Flaw::LosesNaN}) {
    Fixture f;
    f.path.doubtful = flaw;
    const Layer layer(f.fake, 2, 3, 4);
    CHECK(f.path.run(layer.call, f.stream).ok());
    CHECK(layer.y() == 8.0F);
    CHECK(f.path.doubtful_runs > 0);
    const int runs = f.path.doubtful_runs;
    CHECK(f.path.run(layer.call, f.stream).ok());
    CHECK(f.path.doubtful_runs == runs + (flaw == Flaw::None ? 1 : 0));
    CHECK(f.settle() == "");
  }
}

TEST_CASE("C in Y's place is another problem than C elsewhere") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  const Layer other(f.fake, 2, 3, 4);
  GemmForward call = layer.call;
  call.attrs.beta = 1.0F;
  call.C = other.call.Y;
  CHECK(f.path.run(call, f.stream).ok());
  call.C = call.Y;
  CHECK(f.path.run(call, f.stream).ok());
  CHECK(f.path->info().planned == 2);
  call.C = other.call.Y;
  CHECK(f.path.run(call, f.stream).ok());
  CHECK(f.path->info().planned == 2);
}

TEST_CASE("C15: pointers that overlap are refused, also where the problem is planned already") {
  Fixture f;
  const Layer layer(f.fake, 4, 4, 4);
  for (int round = 0; round < 2; ++round) {
    GemmForward call = layer.call;
    call.Y = call.A;
    CHECK(f.path.run(call, f.stream).code() == StatusCode::Overlap);
    call = layer.call;
    call.B.data = static_cast<float*>(layer.call.Y.data) + 12;
    CHECK(f.path.run(call, f.stream).code() == StatusCode::Overlap);
    CHECK(layer.y() == (round == 0 ? -1.0F : 8.0F));
    CHECK(f.path.run(layer.call, f.stream).ok());
  }
  // Column halves of one buffer share no byte.
  auto* const both = static_cast<float*>(f.fake.operand(4 * 8 * sizeof(float)));
  GemmForward halves = layer.call;
  halves.A = make_tensor_2d(both, {4, 4}, DType::F32, Device::CUDA, 0, 8);
  halves.Y = make_tensor_2d(both + 4, {4, 4}, DType::F32, Device::CUDA, 0, 8);
  for (int i = 0; i < 32; ++i) both[i] = 1.0F;
  for (int round = 0; round < 2; ++round) CHECK(f.path.run(halves, f.stream).ok());
  CHECK(both[4] == 8.0F);
  CHECK(both[8] == 1.0F);
  CHECK(f.path->info().planned == 2);
}

TEST_CASE("F4: a pointer that is no device memory is named, also where the problem is planned") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  std::vector<float> host(64);
  for (int round = 0; round < 2; ++round) {
    GemmForward call = layer.call;
    call.B.data = f.fake.operand(64, 0, cudaMemoryTypeHost);
    Status status = f.path.run(call, f.stream);
    CHECK(status.code() == StatusCode::DeviceMismatch);
    CHECK(status.message().starts_with("B points to pinned host memory"));
    call.B.data = f.fake.operand(64, 1);
    CHECK(f.path.run(call, f.stream).code() == StatusCode::DeviceMismatch);
    call.B.data = symbolic::allocate(64);
    status = f.path.run(call, f.stream);
    CHECK(status.code() == StatusCode::Invalid);
    CHECK(status.message().starts_with("B is a temporary"));
    CHECK(f.path.run(layer.call, f.stream).ok());
  }
}

TEST_CASE("CUDA is asked about a pointer once, until the cache is cleared") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  CHECK(f.path.run(layer.call, f.stream).ok());
  f.fake.forget_calls();
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.count("pointer_get_attributes") == 0);
  f.path->clear();
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.count("pointer_get_attributes") == 3);
}

TEST_CASE("a direct call that is planned asks CUDA for the device and the stream's state alone") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  CHECK(f.path.run(layer.call, f.stream).ok());
  f.fake.forget_calls();
  CHECK(f.path.run(layer.call, f.stream).ok());
  std::string calls;
  for (const std::string& call : f.fake.calls()) calls += call + " ";
  CHECK(calls == "get_device stream_is_capturing ");
}

TEST_CASE("the caller's device is made current again, and the tensors' one while it lasts") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.device = 1;
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.device == 1);
}

TEST_CASE("D3: an error that the caller has left pending does not fail a direct call") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.last_error = cudaErrorUnknown;
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.last_error == cudaErrorUnknown);
}

TEST_CASE("of more plans than the limit the one longest unused goes") {
  Fixture f;
  const Layer layer(f.fake, 4, 4, 4);
  const auto with_alpha = [&](float alpha) {
    GemmForward call = layer.call;
    call.attrs.alpha = alpha;
    CHECK(f.path.run(call, f.stream).ok());
    return f.path->info().planned;
  };
  f.path->set_limit(2);
  CHECK(with_alpha(1.0F) == 1);
  CHECK(with_alpha(2.0F) == 2);
  CHECK(with_alpha(1.0F) == 2);
  CHECK(with_alpha(3.0F) == 3);  // drops 2
  CHECK(with_alpha(1.0F) == 3);
  CHECK(with_alpha(2.0F) == 4);
  CHECK(f.path->info().plans == 2);
  f.path->set_limit(0);
  CHECK(f.path->info().plans == 0);
  CHECK(with_alpha(1.0F) == 5);
  CHECK(with_alpha(1.0F) == 6);
  CHECK(f.path->info().plans == 0);
}

TEST_CASE("a failure to plan is returned, and not kept") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  f.path.prepare_status = Status(StatusCode::Unsupported, "no such module");
  CHECK(f.path.run(layer.call, f.stream).code() == StatusCode::Unsupported);
  f.path.prepare_status = {};
  CHECK(f.path.run(layer.call, f.stream).ok());
  f.fake.device_count = 0;
  f.path->clear();
  CHECK(f.path.run(layer.call, f.stream).code() == StatusCode::Unsupported);
  f.fake.device_count = 2;
  GemmForward wrong = layer.call;
  wrong.B.desc.shape = {5, 3};
  CHECK(f.path.run(wrong, f.stream).code() == StatusCode::ShapeMismatch);
  wrong.B.desc.shape = {4, 3, 1};
  CHECK(f.path.run(wrong, f.stream).code() == StatusCode::ShapeMismatch);
}

TEST_CASE("each stream has scratch of its own, which grows and is used again") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer small(f.fake, 2, 3, 4);
  const Layer large(f.fake, 200, 100, 2);
  const Stream other = f.fake.make_stream();
  CHECK(f.path.run(small.call, f.stream).ok());
  CHECK(small.y() == 8.0F);
  CHECK(f.path->info().scratch_blocks == 1);
  const std::size_t first = f.fake.pool_bytes();
  CHECK(f.path->info().scratch_bytes == first);
  CHECK(f.path.run(small.call, f.stream).ok());
  CHECK(f.fake.pool_bytes() == first);
  CHECK(f.path.run(large.call, f.stream).ok());
  CHECK(large.y(19'999) == 4.0F);
  CHECK(f.path->info().scratch_blocks == 1);
  CHECK(f.fake.pool_bytes() >= 80'000);
  CHECK(f.path.run(small.call, other).ok());
  CHECK(f.path->info().scratch_blocks == 2);
  CHECK(f.path->info().scratch_bytes == f.fake.pool_bytes());
  f.path->clear();
  CHECK(f.path->info().scratch_blocks == 0);
  CHECK(f.fake.pool_bytes() == 0);
  CHECK(f.path.run(small.call, f.stream).ok());
  CHECK(f.settle() == "");
}

TEST_CASE("B2: streams that come and go leave a bounded number of scratch blocks") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  for (int i = 0; i < 200; ++i) {
    const Stream stream = f.fake.make_stream();
    REQUIRE(f.path.run(layer.call, stream).ok());
    f.fake.destroy_stream(stream);
  }
  CHECK(f.path->info().scratch_blocks == StreamScratch::kMostBlocks);
  CHECK(f.settle() == "");
}

TEST_CASE("B9: scratch that is given back is freed behind the work that uses it") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  CHECK(f.path.run(layer.call, f.stream).ok());
  f.fake.forget_calls();
  f.fake.hold();
  f.path->clear();
  CHECK(f.fake.count("stream_wait_event") == 1);
  CHECK(f.fake.count("stream_synchronize") == 0);
  CHECK(f.fake.pool_bytes() > 0);
  f.fake.complete();
  CHECK(f.fake.pool_bytes() == 0);
}

TEST_CASE("not every use of scratch is marked by an event, and an unmarked one holds its block") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  constexpr auto kUses = static_cast<int>(StreamScratch::kMarkEvery + 3);
  for (int i = 0; i < kUses; ++i) REQUIRE(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.count("event_record") == static_cast<int>(StreamScratch::kAlwaysMarked) + 1);
  const std::size_t held = f.fake.pool_bytes();
  f.path->clear();
  CHECK(f.path->info().scratch_blocks == 1);
  CHECK(f.fake.pool_bytes() == held);
  f.fake.forget_calls();
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.count("free_async") == 1);  // behind the work of the same stream
  CHECK(f.fake.count("stream_wait_event") == 0);
  CHECK(f.fake.pool_bytes() == held);
  f.fake.destroy_stream(f.stream);
  // A stream that is gone with an unmarked use keeps its block for good; others find room.
  for (int i = 0; i < 200; ++i) {
    const Stream stream = f.fake.make_stream();
    REQUIRE(f.path.run(layer.call, stream).ok());
    f.fake.destroy_stream(stream);
  }
  CHECK(f.path->info().scratch_blocks == StreamScratch::kMostBlocks);
}

TEST_CASE("with many streams every use is marked, so that there is always a block to give back") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  for (std::size_t i = 0; i < 2 * StreamScratch::kMostBlocks; ++i) {
    const Stream stream = f.fake.make_stream();
    for (std::uint64_t use = 0; use <= StreamScratch::kAlwaysMarked; ++use) {
      REQUIRE(f.path.run(layer.call, stream).ok());
    }
    f.fake.destroy_stream(stream);
  }
  CHECK(f.path->info().scratch_blocks == StreamScratch::kMostBlocks);
  f.path->clear();
  CHECK(f.path->info().scratch_blocks <= StreamScratch::kFewBlocks + 1);
}

TEST_CASE("a backward call hands each operand to its own slot, and modes tell problems apart") {
  std::vector<float> memory(1024);
  const auto at = [&](std::size_t i) { return memory.data() + 64 * i; };
  const auto matrix = [&](std::size_t i) { return make_tensor_2d(at(i), {2, 2}); };
  GemmBackward call{.A = matrix(0), .B = matrix(1), .gY = matrix(3), .Z = matrix(4)};
  call.C = matrix(2);
  call.gA = Gradient(matrix(5));
  call.gB = Gradient(matrix(6));
  call.gC = Gradient(matrix(7));
  call.gBias = Gradient(make_tensor_1d(at(8), 2));
  call.attrs.act = ActKind::ReLU;
  const DirectCall direct(call);
  REQUIRE(direct.slots() == 9);
  std::array<void*, DirectCall::kMostSlots> moved{};
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = at(15 - i);
  const Result<GemmPlan> plan = direct.plan_at(moved);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  const GemmBackward& planned = plan->backward();
  CHECK(planned.A.data == moved[0]);
  CHECK(planned.B.data == moved[1]);
  CHECK(planned.C->data == moved[2]);
  CHECK(planned.gY.data == moved[3]);
  CHECK(planned.Z->data == moved[4]);
  CHECK(planned.gA->tensor.data == moved[5]);
  CHECK(planned.gB->tensor.data == moved[6]);
  CHECK(planned.gC->tensor.data == moved[7]);
  CHECK(planned.gBias->tensor.data == moved[8]);

  using detail::DirectKey;
  const DirectKey key(direct);
  CHECK(key == DirectKey(DirectCall(call)));
  GemmBackward other = call;
  other.gB->mode = GradMode::Accumulate;
  CHECK(!(key == DirectKey(DirectCall(other))));
  other = call;
  other.gBias->tensor = make_tensor_2d(at(8), {2, 1});
  CHECK(!(key == DirectKey(DirectCall(other))));
  other = call;
  other.attrs.trans_b = true;
  CHECK(!(key == DirectKey(DirectCall(other))));
  other = call;
  other.B.device_index = 1;
  CHECK(!(key == DirectKey(DirectCall(other))));
  other.B.device_index = 65536;
  CHECK(!DirectKey(DirectCall(other)).valid());
  other = call;
  other.gA->mode = static_cast<GradMode>(4);
  CHECK(!DirectKey(DirectCall(other)).valid());
}

TEST_CASE("A2: too little memory for scratch is OutOfMemory, and the next call works") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.free_bytes = 16;
  const Status status = f.path.run(layer.call, f.stream);
  CHECK(status.code() == StatusCode::OutOfMemory);
  CHECK(status.message().starts_with("scratch: "));
  CHECK(layer.y() == -1.0F);
  f.fake.free_bytes = 1 << 20;
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == 8.0F);
  CHECK(f.settle() == "");
}

TEST_CASE("a stream of another device is named") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.device = 1;
  const Stream foreign = f.fake.make_stream();
  f.fake.device = 0;
  const Status status = f.path.run(layer.call, foreign);
  CHECK(status.code() == StatusCode::DeviceMismatch);
  CHECK(status.message().find("device 1, expected device 0") != std::string::npos);
}

TEST_CASE("A7: a direct call is recorded into the caller's capture, without scratch if it can be") {
  Fixture f;
  f.path.scratch_first = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == -1.0F);
  CHECK(f.fake.capturing(f.stream));
  CHECK(f.fake.pool_bytes() == 0);
  CHECK(f.fake.end_capture(f.stream));
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == 8.0F);
  CHECK(f.path->info().scratch_blocks == 1);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: where a capture needs scratch the caller's graph keeps it") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.path->info().scratch_blocks == 0);
  const std::size_t kept = f.fake.pool_bytes();
  CHECK(kept > 0);
  f.path->clear();
  CHECK(f.fake.pool_bytes() == kept);
  CHECK(f.fake.end_capture(f.stream));  // and the graph is destroyed
  CHECK(f.fake.pool_bytes() == kept);
  f.path->clear();  // as would any other call that is not under way on a callback
  CHECK(f.fake.pool_bytes() == 0);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: a direct call on the legacy stream while a blocking stream is captured is refused") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  const Stream blocking = f.fake.make_stream(cudaStreamDefault);
  f.fake.begin_capture(blocking);
  CHECK(f.path.run(layer.call, nullptr).code() == StatusCode::CaptureActive);
  CHECK(f.fake.last_error == cudaSuccess);
  CHECK(f.fake.end_capture(blocking));
  CHECK(f.path.run(layer.call, nullptr).ok());
}

TEST_CASE("A4: a capture that is broken already is said to be") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  f.fake.invalidate(f.stream);
  CHECK(f.path.run(layer.call, f.stream).code() == StatusCode::CaptureInvalidated);
  CHECK(!f.fake.end_capture(f.stream));
}

TEST_CASE(
    "A6: whichever call of a direct call fails, its error is returned and the next one works") {
  for (const bool captured : {false, true}) {
    CAPTURE(captured);
    bool reached = true;
    for (int nth = 1; reached; ++nth) {
      CAPTURE(nth);
      Fixture f;
      f.path.scratch_only = true;
      const Layer layer(f.fake, 2, 3, 4);
      if (captured) f.fake.begin_capture(f.stream);
      f.fake.fail_any(nth, cudaErrorUnknown);
      const Status status = f.path.run(layer.call, f.stream);
      reached = !f.fake.failed().empty();
      if (!reached) {
        if (captured) (void)f.fake.end_capture(f.stream);
        CHECK(f.settle() == "");
        break;
      }
      CAPTURE(f.fake.failed());
      // Guards and frees have nobody to tell.
      if (!status.ok()) CHECK(status.message() != "");
      CHECK(f.fake.last_error == cudaSuccess);
      if (captured) (void)f.fake.end_capture(f.stream);
      if (f.fake.mode != cudaStreamCaptureModeGlobal) f.fake.mode = cudaStreamCaptureModeGlobal;
      f.fake.device = 0;
      const Status next = f.path.run(layer.call, f.stream);
      CHECK_MESSAGE(next.ok(), next.to_string());
      CHECK(layer.y() == 8.0F);
      (void)f.settle();  // what a failed release has kept is not asked for
    }
  }
}

}  // namespace
}  // namespace ai::test
