// What Executable::hold keeps, and for how long.
#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "direct_support.hpp"
#include "held_thing.hpp"
#include "movable_program.hpp"
#include "one_layer.hpp"
#include "support/intended_leak.hpp"

namespace ai::test {
namespace {

enum class Nodes {
  Switchable,   // the executable owns what its nodes use
  HostFunction  // its graphs retain that
};
constexpr Nodes kBoth[] = {Nodes::Switchable, Nodes::HostFunction};

}  // namespace

TEST_CASE("B9: what is held goes with an executable that is not running") {
  for (const Nodes nodes : kBoth) {
    for (const bool launched : {false, true}) {
      CAPTURE(launched);
      FakeCuda fake;
      OneLayer one(fake);
      if (nodes == Nodes::HostFunction) one.add_host_function();
      Thing thing;
      {
        Executable executable = one.capture();
        executable.hold(thing.give());
        if (launched) REQUIRE(executable.launch(fake.make_stream()).ok());
        if (launched) REQUIRE(executable.wait().ok());
        CHECK(!thing.gone);
      }
      CHECK(thing.gone);
      CHECK(settled(fake) == "");
    }
  }
}

TEST_CASE("B9: what is held goes at once though CUDA keeps the graph of an idle executable") {
  FakeCuda fake;
  OneLayer one(fake);
  one.add_host_function();
  Thing thing;
  fake.hold();
  {
    Executable executable = one.capture();
    executable.hold(thing.give());
    REQUIRE(executable.launch(fake.make_stream()).ok());
    REQUIRE(executable.wait().ok());
  }
  CHECK(thing.gone);
  fake.complete();
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: what is held outlives the last launch, and goes with a later call") {
  for (const Nodes nodes : kBoth) {
    CAPTURE(static_cast<int>(nodes));
    FakeCuda fake;
    OneLayer one(fake);
    if (nodes == Nodes::HostFunction) one.add_host_function();
    OneLayer plain(fake);
    Path path(fake);
    const Layer layer(fake, 2, 3, 4);
    std::optional<Executable> other;
    const std::pair<const char*, std::function<void()>> later[] = {
        {"a capture", [&] { (void)one.capture(); }},
        {"a wait of an executable that was never launched", [&] { CHECK(other->wait().ok()); }},
        {"a wait for what was enqueued",
         [&] {
           REQUIRE(other->enqueue(fake.make_stream()).ok());
           CHECK(other->wait().ok());
         }},
        {"a wait that fails",
         [&] {
           REQUIRE(other->launch(fake.make_stream()).ok());
           fake.fail("stream_synchronize", 1, cudaErrorUnknown);
           CHECK(!other->wait().ok());
         }},
        {"a rebind that fails",
         [&] {
           float elsewhere = 0;
           CHECK(!other->rebind({{plain.layer.call.A.data, &elsewhere}}).ok());
         }},
        {"the end of an executable", [&] { other.reset(); }},
        {"a direct call", [&] { CHECK(path.run(layer.call, fake.make_stream()).ok()); }},
        {"a direct call that fails", [&] { CHECK(!path.run({}, nullptr).ok()); }},
    };
    for (const auto& [name, call] : later) {
      CAPTURE(name);
      other.emplace(plain.capture());
      Thing thing;
      leave_in_flight(fake, one, thing);
      call();
      CHECK(thing.gone);
      other.reset();
    }
    path.destroy();
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("what is replaced is let go at once, as is what a moved-from executable is given") {
  for (const Nodes nodes : kBoth) {
    FakeCuda fake;
    OneLayer one(fake);
    if (nodes == Nodes::HostFunction) one.add_host_function();
    Thing first;
    Thing second;
    Thing third;
    {
      fake.hold();
      Executable executable = one.capture();
      executable.hold(first.give());
      REQUIRE(executable.launch(fake.make_stream()).ok());
      executable.hold(second.give());
      CHECK(first.gone);
      executable.hold(nullptr);
      CHECK(second.gone);
      Thing fourth;
      executable.hold(fourth.give());
      Executable moved = std::move(executable);
      CHECK(!fourth.gone);
      executable.hold(third.give());
      CHECK(third.gone);
      moved.hold(nullptr);
      CHECK(fourth.gone);
      fake.complete();
    }
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("a clone holds nothing of its original's") {
  FakeCuda fake;
  MovableProgram p(fake);
  Thing thing;
  {
    std::optional<Executable> executable = p.capture();
    executable->hold(thing.give());
    Result<Executable> clone = executable->clone();
    REQUIRE(clone.ok());
    executable.reset();
    CHECK(thing.gone);
    CHECK(launched(fake, *clone, p.y) == expected_y(1));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B9: a rebind holds what was held before, in place and anew") {
  for (const cudaGraphNodeType user : {cudaGraphNodeTypeKernel, cudaGraphNodeTypeHost}) {
    for (const std::size_t offset : {0, 1}) {  // odd: another candidate, so another graph
      CAPTURE(offset);
      FakeCuda fake;
      MovableProgram p(fake, user);
      Thing thing;
      {
        Executable executable = p.capture();
        executable.hold(thing.give());
        CHECK(launched(fake, executable, p.y) == expected_y(1));
        REQUIRE(executable.wait().ok());
        fake.forget_calls();
        REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F, offset)}}).ok());
        CHECK(fake.count("graph_instantiate") == static_cast<int>(offset));
        CHECK(!thing.gone);
        fake.hold();
        CHECK(launched(fake, executable, p.y) == expected_y(2));
      }
      detail::reclaim(FakeCuda::api());
      CHECK(!thing.gone);
      fake.complete();
      CHECK(settled(fake) == "");
      CHECK(thing.gone);
    }
  }
}

TEST_CASE("B9: what a graph that was replaced had held is replaced at once, though CUDA keeps it") {
  for (const cudaGraphNodeType user : {cudaGraphNodeTypeKernel, cudaGraphNodeTypeHost}) {
    FakeCuda fake;
    MovableProgram p(fake, user);
    Thing thing;
    {
      Executable executable = p.capture();
      executable.hold(thing.give());
      CHECK(launched(fake, executable, p.y) == expected_y(1));
      fake.hold();
      REQUIRE(executable.launch(fake.make_stream()).ok());
      REQUIRE(executable.wait().ok());
      REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F, 1)}}).ok());
      CHECK(!thing.gone);
      executable.hold(nullptr);
      CHECK(thing.gone);
      fake.complete();
    }
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("A6: a rebind that fails leaves what is held where it was") {
  for (const cudaGraphNodeType user : {cudaGraphNodeTypeKernel, cudaGraphNodeTypeHost}) {
    FakeCuda fake;
    MovableProgram p(fake, user);
    Thing thing;
    {
      Executable executable = p.capture();
      executable.hold(thing.give());
      fake.fail("graph_instantiate", 1, cudaErrorUnknown);
      CHECK(!executable.rebind({{p.x, p.buffer(6, 2.0F, 1)}}).ok());
      CHECK(!thing.gone);
      CHECK(launched(fake, executable, p.y) == expected_y(1));
      REQUIRE(executable.wait().ok());
    }
    CHECK(thing.gone);
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("B9: where the end of the last launch cannot be known, what is held never goes") {
  const support::IntendedLeak leak;
  bool gone = false;
  const auto thing = [&gone] {
    return std::shared_ptr<const void>("thing", [&gone](const void*) { gone = true; });
  };
  SUBCASE("a fence") {
    FakeCuda fake;
    OneLayer one(fake);
    {
      Executable executable = one.capture();
      executable.hold(thing());
      REQUIRE(executable.launch(fake.make_stream()).ok());
      fake.fail("graph_launch", 1, cudaErrorUnknown);
    }
    CHECK(settled(fake) == "1 streams left; 1 pools left; 1024 bytes of pool memory left; ");
  }
  SUBCASE("what was enqueued, over a graph that retains") {
    FakeCuda fake;
    OneLayer one(fake);
    one.add_host_function();
    {
      Executable executable = one.capture();
      executable.hold(thing());
      REQUIRE(executable.enqueue(fake.make_stream()).ok());
      fake.fail("event_synchronize", 1, cudaErrorUnknown);
    }
    CHECK(settled(fake) ==
          "1 streams left; 1 user objects left; 1 pools left; 1024 bytes of pool memory left; ");
  }
  CHECK(!gone);
}

}  // namespace ai::test
