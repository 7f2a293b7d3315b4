#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "one_layer.hpp"

namespace ai::test {
namespace {

/// The calls between each begin of a capture and its end.
std::set<std::string> calls_inside_captures(const std::vector<std::string>& calls) {
  std::set<std::string> inside;
  bool open = false;
  for (const std::string& call : calls) {
    if (call == "stream_end_capture") open = false;
    if (open) inside.insert(call);
    if (call.starts_with("stream_begin_capture")) open = true;
  }
  return inside;
}

std::string without(std::set<std::string> calls, const std::set<std::string>& allowed) {
  std::string rest;
  for (const std::string& call : calls) {
    if (!allowed.contains(call)) rest += call + " ";
  }
  return rest;
}

// Not a list of what is forbidden: whatever comes to be called inside a capture must be thought
// about.
const std::set<std::string> kQuietCalls = {"stream_get_capture_info",
                                           "stream_update_capture_dependencies", "set_device"};

TEST_CASE(
    "A2: between begin and end of a capture nothing is allocated, freed, loaded or waited for") {
  FakeCuda fake;
  OneLayer one(fake, 1000);
  fake.forget_calls();
  {
    const Executable executable = one.capture();
    CHECK(executable.workspace_bytes() >= 1000);
  }
  const std::vector<std::string> calls = fake.calls();
  REQUIRE(fake.count("malloc_from_pool_async") > 0);  // before it, that is
  const std::set<std::string> inside = calls_inside_captures(calls);
  REQUIRE(!inside.empty());
  CHECK(without(inside, kQuietCalls) == "");
  CHECK(settled(fake) == "");
}

TEST_CASE("A2: the calls inside captures are found, and an allocation among them is") {
  const std::vector<std::string> calls = {
      "malloc_from_pool_async",  "stream_begin_capture_to_graph",
      "stream_get_capture_info", "malloc_from_pool_async",
      "stream_end_capture",      "free_async"};
  CHECK(without(calls_inside_captures(calls), kQuietCalls) == "malloc_from_pool_async ");
}

TEST_CASE("A2: the same while candidates are measured in graphs of their own") {
  FakeCuda fake;
  Layer layer(fake, 2, 2, 3);
  FakeBackend backend([&fake](const GemmPlan& plan) {
    return std::vector<Task>{{"forward",
                              {candidate("first", gemm_step(fake, plan, "first", 2.0)),
                               candidate("second", gemm_step(fake, plan, "second", 1.0))}}};
  });
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  {
    const Result<Executable> executable = capture_fake(fake, backend, program, true);
    REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  }
  CHECK(without(calls_inside_captures(fake.calls()), kQuietCalls) == "");
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
