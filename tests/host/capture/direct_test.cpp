// The direct path over the fake runtime: plans, and what tells calls apart.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "direct_support.hpp"

namespace ai::test {
namespace {

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

TEST_CASE("F4: a stream of another device is named before anything is enqueued on it") {
  bool by_driver = false;
  SUBCASE("the driver tells") {
    by_driver = true;
  }
  SUBCASE("the runtime tells") {}
  if (by_driver) FakeCuda::first_driver_symbols = {"cuStreamGetCtx", "cuCtxGetDevice"};
  Fixture f;
  FakeCuda::first_driver_symbols = {};
  const Layer layer(f.fake, 2, 3, 4);
  const Stream foreign = f.fake.make_stream_on(1);
  for (const bool with_scratch : {false, true}) {
    CAPTURE(with_scratch);
    f.path->clear();
    f.path.scratch_only = with_scratch;
    for (int round = 0; round < 2; ++round) {
      const Status status = f.path.run(layer.call, foreign);
      CHECK(status.code() == StatusCode::DeviceMismatch);
      CHECK(status.message() == "the stream belongs to device 1, expected device 0");
      CHECK(layer.y() == -1.0F);
    }
    CHECK(f.path->info().scratch_blocks == 0);
  }
  CHECK((f.fake.count("stream_get_device") == 0) == by_driver);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == 8.0F);
  f.path->clear();
  CHECK(f.settle() == "");
}

TEST_CASE("F4 A7: a capturing stream of another device is named, and its capture stays as it was") {
  for (const bool does_the_driver_tell : {true, false}) {
    CAPTURE(does_the_driver_tell);
    if (does_the_driver_tell) FakeCuda::first_driver_symbols = {"cuStreamGetCtx", "cuCtxGetDevice"};
    Fixture f;
    FakeCuda::first_driver_symbols = {};
    const Layer layer(f.fake, 2, 3, 4);
    const Stream foreign = f.fake.make_stream_on(1);
    for (const Stream stream : {foreign, f.stream}) {
      f.fake.begin_capture(stream);
      const Status status = f.path.run(layer.call, stream);
      if (does_the_driver_tell && stream == foreign) {
        CHECK(status.message() == "the stream belongs to device 1, expected device 0");
        CHECK(status.code() == StatusCode::DeviceMismatch);
      } else {
        CHECK(status.ok());
      }
      CHECK(f.fake.capturing(stream));
      CHECK(f.fake.end_capture(stream));
    }
    CHECK(f.fake.last_error == cudaSuccess);
    CHECK(f.settle() == "");
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

TEST_CASE("CUDA is hardly asked again about the pointers of a hundred calls in turn") {
  Fixture f;
  std::vector<std::unique_ptr<Layer>> layers;
  for (int i = 0; i < 100; ++i) layers.push_back(std::make_unique<Layer>(f.fake, 2, 3, 4));
  const auto in_turn = [&] {
    for (const auto& layer : layers) CHECK(f.path.run(layer->call, f.stream).ok());
  };
  for (int i = 0; i < 10; ++i) in_turn();
  f.fake.forget_calls();
  in_turn();
  CHECK(f.fake.count("pointer_get_attributes") < 30);
  CHECK(f.settle() == "");
}

TEST_CASE("a direct call that is planned asks CUDA for the device, and of the stream two things") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  CHECK(f.path.run(layer.call, f.stream).ok());
  f.fake.forget_calls();
  CHECK(f.path.run(layer.call, f.stream).ok());
  std::string calls;
  for (const std::string& call : f.fake.calls()) calls += call + " ";
  CHECK(calls == "get_device stream_is_capturing stream_get_device ");
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

}  // namespace
}  // namespace ai::test
