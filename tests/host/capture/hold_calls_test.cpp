// What Executable::hold keeps may call the library when it goes.
#include <doctest/doctest.h>

#include <optional>
#include <thread>
#include <vector>

#include "capture/direct_memo.hpp"
#include "direct_support.hpp"
#include "held_thing.hpp"

namespace ai::test {

TEST_CASE("what is held may call the library when it goes, from another thread too") {
  Fixture f;
  f.path.scratch_only = true;
  OneLayer one(f.fake);
  OneLayer plain(f.fake);
  const Layer layer(f.fake, 2, 3, 4);
  std::optional<Executable> other = plain.capture();
  int calls = 0;
  Thing thing([&] {
    // On a lock of ours that this thread holds the other one would wait for ever.
    std::thread([&] {
      if (f.path.run(layer.call, f.stream).ok()) ++calls;
      f.path->set_limit(f.path->info().limit);
      f.path->clear();
      OneLayer within(f.fake);
      Executable executable = within.capture();
      if (executable.launch(f.stream).ok() && executable.wait().ok()) ++calls;
    }).join();
    if (f.path.run(layer.call, f.stream).ok()) ++calls;
  });
  leave_in_flight(f.fake, one, thing);
  SUBCASE("a direct call") {
    CHECK(f.path.run(layer.call, f.stream).ok());
  }
  SUBCASE("a direct call inside a capture") {
    const Stream stream = f.fake.make_stream();
    f.fake.begin_capture(stream);
    CHECK(f.path.run(layer.call, stream).ok());
    CHECK(f.fake.end_capture(stream));
  }
  SUBCASE("the direct path's clear") {
    f.path->clear();
  }
  SUBCASE("a capture") {
    CHECK(one.capture().target() == Target::CUDA);
  }
  SUBCASE("a wait") {
    CHECK(other->wait().ok());
  }
  SUBCASE("a rebind") {
    CHECK(other->rebind({{plain.layer.call.A.data, plain.layer.call.A.data}}).ok());
  }
  SUBCASE("the end of an executable") {
    other.reset();
  }
  CHECK(thing.gone);
  CHECK(calls == 3);
  other.reset();
  CHECK(f.settle() == "");
}

TEST_CASE("a direct call stays itself though what goes in it makes as many as are remembered") {
  Fixture f;
  const Layer layer(f.fake, 2, 2, 3);
  std::vector<GemmForward> twins(detail::RecentCalls::kMost, layer.call);  // but for A
  for (GemmForward& twin : twins) {
    twin.A.data = f.fake.operand(6 * sizeof(float));
    Layer::fill(twin.A, 5.0F);
  }
  OneLayer one(f.fake);
  Thing thing([&] {
    f.fake.device = 1;
    for (const GemmForward& twin : twins) CHECK(f.path.run(twin, f.stream).ok());
    CHECK(layer.y() == 30.0F);
  });
  CHECK(f.path.run(layer.call, f.stream).ok());
  leave_in_flight(f.fake, one, thing);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(thing.gone);
  CHECK(layer.y() == 6.0F);
  CHECK(f.settle() == "");
}

}  // namespace ai::test
