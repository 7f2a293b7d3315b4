#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "one_layer.hpp"

namespace ai::test {
namespace {

TEST_CASE("a launch asks whether the stream is capturing, launches, and calls nothing else") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    CHECK(one.layer.y() == -1.0F);  // capture ran nothing on the user's operands
    const Stream stream = fake.make_stream();
    fake.forget_calls();
    REQUIRE(executable.launch(stream).ok());
    CHECK(fake.calls() == std::vector<std::string>{"stream_is_capturing", "graph_launch"});
    CHECK(one.layer.y() == 6.0F);
    CHECK(executable.target() == Target::CUDA);
    CHECK(executable.workspace_bytes() == 1024);
    CHECK(executable.nodes().size() == 2);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("the graph is uploaded when it is made") {
  FakeCuda fake;
  OneLayer one(fake);
  const Executable executable = one.capture();
  CHECK(fake.count("graph_upload") == 1);
  CHECK(fake.count("graph_launch") == 0);
}

TEST_CASE("A7: a launch on a capturing stream is CaptureActive and leaves that capture intact") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    auto executable = std::make_unique<Executable>(one.capture());
    Executable second = one.capture();
    const Stream stream = fake.make_stream();
    REQUIRE(executable->launch(stream).ok());
    fake.begin_capture(stream);
    CHECK(executable->launch(stream).code() == StatusCode::CaptureActive);
    CHECK(executable->wait().code() == StatusCode::CaptureActive);
    executable.reset();
    CHECK(second.launch(fake.make_stream()).ok());
    const OneLayer another(fake);
    CHECK(fake.end_capture(stream));
    CHECK(second.launch(stream).ok());
    CHECK(second.wait().ok());
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("A7: capturing a program while the caller captures leaves the caller's capture intact") {
  FakeCuda fake;
  OneLayer one(fake);
  const Stream stream = fake.make_stream();
  fake.begin_capture(stream);
  { const Executable executable = one.capture(); }
  CHECK(fake.end_capture(stream));
  CHECK(settled(fake) == "");
}

TEST_CASE("A7: the legacy stream is refused while a blocking stream is captured") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    const Stream blocking = fake.make_stream(cudaStreamDefault);
    fake.begin_capture(blocking);
    CHECK(executable.launch(nullptr).code() == StatusCode::CaptureActive);
    CHECK(fake.last_error == cudaSuccess);
    CHECK(fake.end_capture(blocking));
    CHECK(executable.launch(nullptr).ok());
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a launch error is returned, and the next launch works") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    const Stream stream = fake.make_stream();
    fake.fail("graph_launch", 1, cudaErrorUnknown);
    const Status status = executable.launch(stream);
    CHECK(status.code() == StatusCode::CudaError);
    CHECK(status.message().find("cudaGraphLaunch") != std::string::npos);
    CHECK(fake.last_error == cudaSuccess);
    fake.fail("stream_is_capturing", 1, cudaErrorUnknown);
    CHECK(executable.launch(stream).code() == StatusCode::CudaError);
    CHECK(executable.launch(stream).ok());
    fake.fail("stream_synchronize", 1, cudaErrorUnknown);
    CHECK(executable.wait().code() == StatusCode::CudaError);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("wait without a launch has nothing to wait for") {
  FakeCuda fake;
  OneLayer one(fake);
  Executable executable = one.capture();
  fake.forget_calls();
  CHECK(executable.wait().ok());
  CHECK(fake.calls().empty());
}

TEST_CASE("B7: the default stream is that of the program's device, and the caller's device stays") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    fake.device = 1;
    Executable other = one.capture();
    CHECK(one.recorded_on == 0);
    CHECK(fake.device == 1);
    fake.forget_calls();
    REQUIRE(executable.launch(nullptr).ok());
    CHECK(fake.count("set_device") == 2);
    CHECK(fake.device == 1);
    REQUIRE(executable.wait().ok());
    CHECK(fake.device == 1);
    fake.device = 0;
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B7: steps are not enqueued on a stream of another device") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    fake.device = 1;
    const Stream foreign = fake.make_stream_on(1);
    fake.forget_calls();
    const Status status = executable.enqueue(foreign);
    CHECK(fake.count("event_record") == 0);
    CHECK(one.layer.y() == -1.0F);
    CHECK(status.code() == StatusCode::DeviceMismatch);
    CHECK(status.message() == "the stream belongs to device 1, expected device 0");
    CHECK(fake.device == 1);
    CHECK(executable.wait().ok());
    CHECK(executable.enqueue().ok());  // the default stream of the program's device
    CHECK(executable.wait().ok());
    fake.device = 0;
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B1: destroying one executable leaves the workspace of another alone") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    auto p = std::make_unique<Executable>(one.capture());
    void* const workspace_of_p = one.workspace;
    Executable q = one.capture();
    CHECK(one.workspace != workspace_of_p);
    CHECK(fake.pool_bytes() == 2048);
    p.reset();
    CHECK(fake.pool_bytes() == 1024);
    CHECK(q.launch(fake.make_stream()).ok());
    CHECK(one.layer.y() == 6.0F);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B2: capturing and destroying many times keeps no memory") {
  FakeCuda fake;
  OneLayer one(fake);
  for (int i = 0; i < 100; ++i) {
    Executable executable = one.capture();
    REQUIRE(executable.launch(nullptr).ok());
    REQUIRE(fake.pool_bytes() == 1024);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B5: what a user step's function holds lives as long as the executable") {
  FakeCuda fake;
  OneLayer one(fake);
  const auto constant = std::make_shared<float>(3.0F);
  {
    Program program = one.program;
    UserStep step;
    step.name = "constant";
    step.writes = {one.layer.call.Y};
    step.cuda = [&fake, constant, y = one.layer.call.Y.data](const StepContext& context) -> Status {
      (void)FakeCuda::api().memcpy_async(y, constant.get(), sizeof(float), cudaMemcpyHostToDevice,
                                         context.stream);
      return {};
    };
    REQUIRE(program.add(std::move(step)).ok());
    Result<Executable> executable = capture_fake(fake, one.backend, program);
    REQUIRE(executable.ok());
    program = {};
    CHECK(constant.use_count() > 1);
    REQUIRE(executable->launch(nullptr).ok());
    CHECK(one.layer.y() == 3.0F);
  }
  CHECK(settled(fake) == "");
  CHECK(constant.use_count() == 1);
}

TEST_CASE("C2: a program whose steps do nothing is a graph without nodes") {
  FakeCuda fake;
  Layer layer(fake, 0, 2, 3);
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  FakeBackend backend([](const GemmPlan&) {
    return std::vector<Task>{{"forward", {Candidate{"none", {}, true, {}}}}};
  });
  {
    Result<Executable> executable = capture_fake(fake, backend, program);
    REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
    CHECK(executable->nodes().empty());
    CHECK(executable->launch(nullptr).ok());
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a user step without a cuda function is named") {
  FakeCuda fake;
  OneLayer one(fake);
  UserStep step;
  step.name = "host only";
  step.host = [](const StepContext&) { return Status(); };
  step.writes = {one.layer.call.Y};
  REQUIRE(one.program.add(std::move(step)).ok());
  const Status status = capture_fake(fake, one.backend, one.program).status();
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().find("'host only' has no cuda function") != std::string::npos);
  CHECK(settled(fake) == "");
}

TEST_CASE("errors of the backend are returned with the item they belong to") {
  FakeCuda fake;
  OneLayer one(fake);
  FakeBackend nothing([](const GemmPlan&) {
    return std::vector<Task>{{"forward Y", {Candidate{"lt", "no library", true, {}}}}};
  });
  const Status status = capture_fake(fake, nothing, one.program).status();
  CHECK(status.code() == StatusCode::Unsupported);
  CHECK(status.message().find("no library") != std::string::npos);
}

}  // namespace
}  // namespace ai::test
