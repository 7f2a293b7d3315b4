#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fake_program.hpp"

namespace ai::test {
namespace {

/// An executable of one layer, launched through the driver's own functions.
struct Launched {
  Launched()
      : layer(fake, 2, 2, 3), backend([this](const GemmPlan& plan) {
          return std::vector<Task>{
              {"forward", {{"plain", {}, true, {gemm_step(fake, plan, "gemm", 1)}}}}};
        }) {
    fake.driver_symbols = {"cuStreamIsCapturing", "cuGraphLaunch"};
    REQUIRE(program.add(layer.plan()).ok());
  }
  Executable capture() {
    Result<Executable> made = capture_fake(fake, backend, program);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    return std::move(made).value();
  }

  FakeCuda fake;
  Layer layer;
  FakeBackend backend;
  Program program;
};

TEST_CASE("a launch asks the driver whether the stream is capturing, launches, and no more") {
  Launched one;
  {
    Executable executable = one.capture();
    const Stream stream = one.fake.make_stream();
    one.fake.forget_calls();
    REQUIRE(executable.launch(stream).ok());
    CHECK(one.fake.calls() == std::vector<std::string>{"cuStreamIsCapturing", "cuGraphLaunch"});
    CHECK(one.layer.y() == 6.0F);
  }
  CHECK(settled(one.fake) == "");
}

TEST_CASE("the runtime's functions serve where the driver lacks one of the two") {
  for (const char* only : {"cuStreamIsCapturing", "cuGraphLaunch"}) {
    Launched one;
    one.fake.driver_symbols = {only};
    {
      Executable executable = one.capture();
      const Stream stream = one.fake.make_stream();
      one.fake.forget_calls();
      REQUIRE(executable.launch(stream).ok());
      CHECK(one.fake.calls() == std::vector<std::string>{"stream_is_capturing", "graph_launch"});
    }
    CHECK(settled(one.fake) == "");
  }
}

TEST_CASE("the default streams go by the driver too, on the executable's device") {
  Launched one;
  {
    Executable executable = one.capture();
    for (const std::uintptr_t handle : {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{2}}) {
      one.fake.forget_calls();
      CHECK(executable.launch(reinterpret_cast<Stream>(handle)).ok());
      CHECK(one.fake.calls() ==
            std::vector<std::string>{"get_device", "cuStreamIsCapturing", "cuGraphLaunch"});
    }
  }
  CHECK(settled(one.fake) == "");
}

TEST_CASE("A7: the driver's road too leaves the caller's capture intact") {
  Launched one;
  {
    Executable executable = one.capture();
    const Stream stream = one.fake.make_stream();
    one.fake.begin_capture(stream);
    CHECK(executable.launch(stream).code() == StatusCode::CaptureActive);
    CHECK(one.fake.end_capture(stream));
    CHECK(executable.launch(stream).ok());
  }
  CHECK(settled(one.fake) == "");
}

TEST_CASE("D3: an error of the driver is returned, and the caller's pending one stays") {
  Launched one;
  {
    Executable executable = one.capture();
    const Stream stream = one.fake.make_stream();
    one.fake.last_error = cudaErrorInvalidDevice;
    one.fake.fail("cuGraphLaunch", 1, cudaErrorUnknown);
    const Status status = executable.launch(stream);
    CHECK(status.code() == StatusCode::CudaError);
    CHECK(status.message().find("cuGraphLaunch failed") != std::string::npos);
    CHECK(one.fake.last_error == cudaErrorInvalidDevice);
    one.fake.last_error = cudaSuccess;
    CHECK(executable.launch(stream).ok());
  }
  CHECK(settled(one.fake) == "");
}

TEST_CASE("a thread without a context launches through the runtime, which gives it one") {
  Launched one;
  {
    Executable executable = one.capture();
    const Stream stream = one.fake.make_stream();
    one.fake.fail("cuGraphLaunch", 1, cudaErrorDeviceUninitialized);  // CUDA_ERROR_INVALID_CONTEXT
    one.fake.forget_calls();
    REQUIRE(executable.launch(stream).ok());
    CHECK(one.fake.count("graph_launch") == 1);
    CHECK(one.layer.y() == 6.0F);
  }
  CHECK(settled(one.fake) == "");
}

}  // namespace
}  // namespace ai::test
