#include <doctest/doctest.h>

#include "movable_program.hpp"

namespace ai::test {
namespace {

TEST_CASE(
    "B9: a rebind in flight does not wait, and what dies after it is freed behind the launch") {
  FakeCuda fake;
  MovableProgram p(fake);
  fake.hold();
  {
    Executable executable = p.capture();
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    float* const other = p.buffer(6, 2.0F);
    fake.forget_calls();
    REQUIRE(executable.rebind({{p.x, other}}).ok());
    CHECK(fake.count("stream_synchronize") == 0);
    CHECK(fake.count("graph_launch") == 0);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  detail::reclaim(FakeCuda::api());
  CHECK(fake.pool_bytes() > 0);
  fake.complete();
  CHECK(settled(fake) == "");
}

TEST_CASE(
    "B9: a graph made anew waits for the last launch of the old one, whose stream may be gone") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    const Stream stream = fake.make_stream();
    REQUIRE(executable.launch(stream).ok());
    fake.destroy_stream(stream);
    const std::size_t bytes = fake.pool_bytes();
    fake.forget_calls();
    REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F, 1)}}).ok());
    CHECK(fake.count("graph_launch") == 1);  // the fence
    CHECK(fake.count("graph_node_set_enabled") == 5);
    CHECK(fake.count("graph_exec_destroy") == 1);
    CHECK(fake.pool_bytes() <= bytes);  // the old workspace is gone
    fake.forget_calls();
    CHECK(executable.wait().ok());  // nothing of it is running
    CHECK(fake.count("stream_synchronize") == 0);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    CHECK(executable.wait().ok());
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("what enqueue() left running is waited for before the workspace goes") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    REQUIRE(executable.enqueue(fake.make_stream()).ok());
    fake.forget_calls();
    REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F)}}).ok());
    CHECK(fake.count("event_synchronize") == 0);
    fake.fail("event_synchronize", 1, cudaErrorUnknown);
    CHECK(!executable.rebind({{p.first.call.B.data, p.buffer(12, 2.0F, 1)}}).ok());
    REQUIRE(executable.rebind({{p.first.call.B.data, p.buffer(12, 2.0F, 1)}}).ok());
    CHECK(fake.count("event_synchronize") == 2);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: with a host function the graph is updated in flight, and keeps what it retains") {
  FakeCuda fake;
  MovableProgram p(fake, cudaGraphNodeTypeHost);
  fake.hold();
  {
    Executable executable = p.capture();
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    float* const other = p.buffer(6, 2.0F);
    for (int i = 0; i < 3; ++i) {
      REQUIRE(executable.rebind({{p.x, other}}).ok());
      REQUIRE(executable.rebind({{other, p.x}}).ok());
    }
    REQUIRE(executable.rebind({{p.x, other}}).ok());
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  detail::reclaim(FakeCuda::api());
  CHECK(fake.pool_bytes() > 0);
  fake.complete();
  CHECK(settled(fake) == "");
}

TEST_CASE("with a host function in flight a graph cannot be made anew: wait() first") {
  FakeCuda fake;
  MovableProgram p(fake, cudaGraphNodeTypeHost);
  {
    Executable executable = p.capture();
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    float* const odd = p.buffer(6, 2.0F, 1);
    const Status status = executable.rebind({{p.x, odd}});
    CHECK(status.code() == StatusCode::Invalid);
    CHECK(says(status, "wait() before rebind()"));
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    REQUIRE(executable.wait().ok());
    REQUIRE(executable.rebind({{p.x, odd}}).ok());
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("A7: a rebind and a clone leave a capture of the caller's intact") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    REQUIRE(executable.launch(fake.make_stream()).ok());
    const Stream stream = fake.make_stream();
    fake.begin_capture(stream);
    float* const odd = p.buffer(6, 2.0F, 1);
    float* const even = p.buffer(6, 3.0F);
    CHECK(executable.rebind({{p.x, even}}).ok());
    CHECK(executable.rebind({{even, odd}}).ok());
    CHECK(executable.clone().ok());
    CHECK(fake.end_capture(stream));
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B2: rebinding many times keeps no memory, in place or anew") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const odd = p.buffer(6, 2.0F, 1);
    void* now = p.x;
    std::size_t bytes = 0;
    for (int i = 0; i < 100; ++i) {
      void* const next = i % 2 == 0 ? odd : p.x;
      REQUIRE(executable.rebind({{now, next}}).ok());
      now = next;
      CHECK(launched(fake, executable, p.y) == expected_y(i % 2 == 0 ? 2 : 1));
      if (i == 0) bytes = fake.pool_bytes();
      REQUIRE(fake.pool_bytes() == bytes);
    }
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B7: a rebind works on the program's device and gives the caller's back") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    fake.device = 1;
    REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F)}}).ok());
    CHECK(fake.device == 1);
    REQUIRE(executable.clone().ok());
    CHECK(fake.device == 1);
    fake.device = 0;
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
