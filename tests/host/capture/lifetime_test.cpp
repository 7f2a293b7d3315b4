#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>

#include "one_layer.hpp"
#include "support/intended_leak.hpp"

namespace ai::test {
namespace {

/// What is left of a workspace that may be in use for ever: it, and the pool it is from.
constexpr char kAbandoned[] = "1 streams left; 1 pools left; 1024 bytes of pool memory left; ";

/// Destroys an executable in flight, the stream of its last launch being gone. Its memory is still
/// there afterwards.
void destroy_in_flight(FakeCuda& fake, OneLayer& one) {
  fake.hold();
  {
    Executable executable = one.capture();
    const Stream stream = fake.make_stream();
    REQUIRE(executable.launch(stream).ok());
    fake.destroy_stream(stream);
    fake.forget_calls();
  }
  CHECK(one.layer.y() == 6.0F);
  CHECK(fake.count("stream_synchronize") == 0);
  CHECK(fake.pool_bytes() == 1024);
  detail::reclaim(FakeCuda::api());
  CHECK(fake.pool_bytes() == 1024);
}

TEST_CASE("B9: destruction in flight does not block, and memory is freed behind the launch") {
  FakeCuda fake;
  OneLayer one(fake);
  destroy_in_flight(fake, one);
  fake.complete();
  CHECK(fake.pool_bytes() == 0);
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: with a node that cannot be switched off memory is freed by the next capture") {
  for (const bool is_host_function : {true, false}) {
    CAPTURE(is_host_function);
    FakeCuda fake;
    fake.cooperative_kernels = !is_host_function;
    OneLayer one(fake);
    if (is_host_function) one.add_host_function();
    destroy_in_flight(fake, one);
    CHECK(fake.count("free_async") == 0);
    fake.complete();  // CUDA's callback: nothing of CUDA may be called in it
    CHECK(fake.pool_bytes() == 1024);
    {
      const Executable next = one.capture();
      CHECK(fake.pool_bytes() == 1024);  // the old workspace went when the new was captured
    }
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("B9: destruction in flight runs none of the program's work again") {
  FakeCuda fake;
  OneLayer one(fake);
  int runs = 0;
  UserStep step;
  step.name = "count";
  step.writes = {one.layer.call.Y};
  step.cuda = [&](const StepContext& context) -> Status {
    (void)fake.work(context.stream, cudaGraphNodeTypeKernel, 1, [&runs] { ++runs; });
    return {};
  };
  REQUIRE(one.program.add(std::move(step)).ok());
  {
    Executable executable = one.capture();
    REQUIRE(executable.launch(fake.make_stream()).ok());
  }
  CHECK(runs == 1);
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: where no fence can be put behind the last launch, memory is never freed") {
  const support::IntendedLeak leak;
  for (const char* call : {"stream_create_with_flags", "graph_node_set_enabled", "graph_launch"}) {
    CAPTURE(call);
    FakeCuda fake;
    OneLayer one(fake);
    {
      Executable executable = one.capture();
      REQUIRE(executable.launch(fake.make_stream()).ok());
      fake.forget_calls();
      fake.fail(call, 1, cudaErrorUnknown);
    }
    CHECK(fake.count("free_async") == 0);
    CHECK(settled(fake) == kAbandoned);
  }
}

TEST_CASE("B9: where the steps cannot be left to the last launch, they live for ever") {
  const support::IntendedLeak leak;
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    REQUIRE(executable.launch(fake.make_stream()).ok());
    fake.fail("launch_host_func", 1, cudaErrorUnknown);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: wait() on one thread says nothing of another thread's per-thread stream") {
  for (const bool elsewhere : {false, true}) {
    CAPTURE(elsewhere);
    FakeCuda fake;
    OneLayer one(fake);
    {
      Executable executable = one.capture();
      const auto launch = [&] { return executable.launch(cudaStreamPerThread).ok(); };
      bool launched = false;
      if (elsewhere) {
        std::thread([&] { launched = launch(); }).join();
      } else {
        launched = launch();
      }
      REQUIRE(launched);
      REQUIRE(executable.wait().ok());
      fake.forget_calls();
    }
    CHECK(fake.count("graph_launch") == (elsewhere ? 1 : 0));  // the fence
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("B9: nor does it where its thread has the id of one that has ended") {
  FakeCuda fake;
  OneLayer one(fake);
  bool had_the_same = false;
  {
    Executable executable = one.capture();
    std::thread::id first;
    std::thread([&] {
      first = std::this_thread::get_id();
      CHECK(executable.launch(cudaStreamPerThread).ok());
    }).join();
    std::thread([&] {
      had_the_same = first == std::this_thread::get_id();
      CHECK(executable.wait().ok());
    }).join();
    fake.forget_calls();
  }
  WARN(had_the_same);  // as the C library mostly does
  CHECK(fake.count("graph_launch") == 1);
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: after wait() destruction needs no fence") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    REQUIRE(executable.launch(fake.make_stream()).ok());
    REQUIRE(executable.wait().ok());
    fake.forget_calls();
  }
  CHECK(fake.count("graph_launch") == 0);
  CHECK(settled(fake) == "");
}

std::ptrdiff_t place_of(const FakeCuda& fake, const std::string& call) {
  return std::find(fake.calls().begin(), fake.calls().end(), call) - fake.calls().begin();
}

TEST_CASE("enqueue runs the steps without the graph, and destruction waits for it") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    const Stream stream = fake.make_stream();
    fake.forget_calls();
    REQUIRE(executable.enqueue(stream).ok());
    CHECK(one.layer.y() == 6.0F);
    CHECK(fake.count("graph_launch") == 0);
    fake.begin_capture(stream);
    CHECK(executable.enqueue(stream).code() == StatusCode::CaptureActive);
    CHECK(fake.end_capture(stream));
    fake.destroy_stream(stream);  // it may be gone
    fake.forget_calls();
  }
  CHECK(fake.count("event_synchronize") == 1);
  CHECK(place_of(fake, "event_synchronize") < place_of(fake, "free_async"));
  CHECK(settled(fake) == "");
}

TEST_CASE("wait() waits for what was enqueued") {
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    REQUIRE(executable.enqueue(fake.make_stream()).ok());
    fake.forget_calls();
    REQUIRE(executable.wait().ok());
    CHECK(fake.count("event_synchronize") == 1);
    fake.forget_calls();
  }
  CHECK(fake.count("event_synchronize") == 0);
  CHECK(settled(fake) == "");
}

TEST_CASE("what enqueue may have left running is never freed where waiting fails") {
  const support::IntendedLeak leak;
  FakeCuda fake;
  OneLayer one(fake);
  {
    Executable executable = one.capture();
    REQUIRE(executable.enqueue(fake.make_stream()).ok());
    fake.fail("event_synchronize", 1, cudaErrorUnknown);
  }
  CHECK(settled(fake) == kAbandoned);
}

TEST_CASE(
    "B7: a user step that switches the device does not move the steps that are enqueued next") {
  FakeCuda fake;
  OneLayer one(fake);
  UserStep step;
  step.name = "switch";
  step.reads = {one.layer.call.A};
  step.cuda = [](const StepContext&) -> Status {
    (void)FakeCuda::api().set_device(1);
    return {};
  };
  Program program;
  REQUIRE(program.add(std::move(step)).ok());
  int device_of_next = -1;
  UserStep next;
  next.name = "next";
  next.reads = {one.layer.call.A};
  next.cuda = [&](const StepContext&) -> Status {
    device_of_next = fake.device;
    return {};
  };
  REQUIRE(program.add(std::move(next)).ok());
  {
    Result<Executable> executable = capture_fake(fake, one.backend, program);
    REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
    device_of_next = -1;
    REQUIRE(executable->enqueue(fake.make_stream()).ok());
    CHECK(device_of_next == 0);
    CHECK(fake.device == 0);
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
