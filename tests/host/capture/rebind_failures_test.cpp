#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>

#include "movable_program.hpp"
#include "support/intended_leak.hpp"

namespace ai::test {
namespace {

TEST_CASE(
    "B6: a graph that CUDA will not update is instantiated anew, once, and no error is left") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const other = p.buffer(6, 2.0F);
    fake.forget_calls();
    fake.refusals = 1;
    const Status status = executable.rebind({{p.x, other}});
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    CHECK(fake.count("graph_instantiate") == 1);
    CHECK(fake.count("graph_exec_update") == 1);
    CHECK(fake.last_error == cudaSuccess);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    REQUIRE(executable.rebind({{other, p.x}}).ok());
    CHECK(fake.count("graph_instantiate") == 1);
    CHECK(launched(fake, executable, p.y) == expected_y(1));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("B6: where that fails too, the executable works on over the old pointers and says so") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const second = p.buffer(6, 2.0F);
    float* const third = p.buffer(6, 3.0F);
    void* now = p.x;
    float value = 1;
    for (int round = 0; round < 2; ++round) {  // over what was captured, and over an update of it
      fake.refusals = 1;
      fake.fail("graph_instantiate", 1, cudaErrorUnknown);
      const Status status = executable.rebind({{now, third}});
      CHECK(status.code() == StatusCode::CudaError);
      CHECK(says(status, "works on over its old pointers"));
      CHECK(says(status, "cudaGraphInstantiate"));
      CHECK(fake.last_error == cudaSuccess);
      CHECK(launched(fake, executable, p.y) == expected_y(value));
      CHECK(operand_at(executable, now) != nullptr);
      if (round == 0) REQUIRE(executable.rebind({{p.x, second}}).ok());
      now = second;
      value = 2;
    }
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("an executable that cannot even be put back refuses to be launched") {
  const support::IntendedLeak leak;
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    fake.refusals = 2;
    fake.fail("graph_instantiate", 1, cudaErrorUnknown);
    const Status status = executable.rebind({{p.x, p.buffer(6, 2.0F)}});
    CHECK(says(status, "works no more"));
    CHECK(!executable.launch(fake.make_stream()).ok());
    CHECK(fake.last_error == cudaSuccess);
  }
  // What a launch may still use is never freed.
  CHECK(settled(fake) == "1 streams left; 1 pools left; " + std::to_string(fake.pool_bytes()) +
                             " bytes of pool memory left; ");
  CHECK(fake.pool_bytes() > 0);
}

/// Calls whose failure hurts nobody.
bool may_fail_quietly(const std::string& call) {
  static const std::set<std::string> quiet{"stream_destroy",
                                           "event_destroy",
                                           "graph_destroy",
                                           "free_async",
                                           "mem_pool_trim_to",
                                           "mem_pool_destroy",
                                           "graph_exec_destroy",
                                           "user_object_release",
                                           "thread_exchange_stream_capture_mode",
                                           "get_device",
                                           "graph_exec_update",
                                           "stream_synchronize",
                                           "get_driver_entry_point",
                                           "cuGraphKernelNodeGetParams",
                                           "cuGraphKernelNodeSetParams"};
  return quiet.contains(call);
}

enum class Road { Update, Refused, Anew, AnewInFlight, Clone };

/// What a failing call explains: what was to be restored or freed by it stays as it is.
bool explains(const std::string& call, const std::string& left) {
  if (left.empty()) return true;
  if (call == "thread_exchange_stream_capture_mode") {
    return left == "the capture mode was not restored; ";
  }
  return call == "get_device" && left.find("bytes of pool memory left; ") != std::string::npos;
}

/// Makes the n-th call of a rebind (or clone) fail, for every n. Returns the calls reached.
std::set<std::string> fail_each_call(Road road, cudaGraphNodeType user, cudaError_t code) {
  std::set<std::string> seen;
  for (int nth = 1;; ++nth) {
    FakeCuda fake;
    MovableProgram p(fake, user);
    const bool anew = road == Road::Anew || road == Road::AnewInFlight;
    float* const x = p.buffer(6, 2.0F, anew ? 1 : 0);
    float* const y = p.buffer(4, 0);
    std::string call;
    {
      Executable executable = p.capture();
      CHECK(launched(fake, executable, p.y) == expected_y(1));
      if (road != Road::AnewInFlight) REQUIRE(executable.wait().ok());
      if (road == Road::Refused) fake.refusals = 1;
      fake.fail_any(nth, code);
      Status status;
      std::optional<Result<Executable>> clone;
      if (road == Road::Clone) {
        clone.emplace(executable.clone({{p.x, x}, {p.y, y}}));
        status = clone->status();
      } else {
        status = executable.rebind({{p.x, x}, {p.y, y}});
      }
      fake.fail_no_more();
      call = fake.failed();
      CAPTURE(nth);
      CAPTURE(call);
      CHECK(fake.last_error == cudaSuccess);
      // Kernels that cannot be put back do not matter where the graph is made anew.
      const bool put_back = p.patches() && road == Road::Refused && fake.refusals == 0;
      CHECK((!status.ok() || call.empty() || may_fail_quietly(call) || put_back));
      CHECK((status.ok() || !status.message().empty()));
      const bool has_moved = road != Road::Clone && status.ok();
      void* const at = has_moved ? static_cast<void*>(y) : p.y;
      CHECK(operand_at(executable, at) != nullptr);
      for (int i = 0; i < 2; ++i) {
        CHECK(launched(fake, executable, at) == expected_y(has_moved ? 2.0F : 1.0F));
      }
      if (clone && clone->ok()) CHECK(launched(fake, **clone, y) == expected_y(2));
    }
    CAPTURE(nth);
    CAPTURE(call);
    const std::string left = settled(fake);
    CHECK_MESSAGE(explains(call, left), left);
    if (call.empty()) return seen;
    seen.insert(call);
  }
}

TEST_CASE("A6: whichever call of a rebind fails, the executable is what it was, or has moved") {
  const std::set<std::string> seen =
      fail_each_call(Road::Update, cudaGraphNodeTypeKernel, cudaErrorUnknown);
  for (const char* call : {"pointer_get_attributes", "stream_create_with_flags", "graph_create",
                           "stream_begin_capture_to_graph", "stream_get_capture_info",
                           "stream_end_capture", "graph_exec_update"}) {
    CHECK_MESSAGE(seen.contains(call), call);
  }
  CHECK(!seen.contains("graph_instantiate"));
}

TEST_CASE("A6: the same where the graph retains what its nodes use") {
  const std::set<std::string> seen =
      fail_each_call(Road::Update, cudaGraphNodeTypeHost, cudaErrorUnknown);
  // A patched graph retains it already.
  CHECK(seen.contains("graph_retain_user_object") == FakeCuda::first_driver_symbols.empty());
}

TEST_CASE("A6: the same where steps are planned anew") {
  const std::set<std::string> seen =
      fail_each_call(Road::Anew, cudaGraphNodeTypeKernel, cudaErrorUnknown);
  CHECK(seen.contains("graph_instantiate"));
  CHECK(seen.contains("malloc_from_pool_async"));
  CHECK(!seen.contains("graph_exec_update"));
}

TEST_CASE("A6: the same while a launch may be running") {
  const std::set<std::string> seen =
      fail_each_call(Road::AnewInFlight, cudaGraphNodeTypeKernel, cudaErrorUnknown);
  CHECK(seen.contains("graph_node_set_enabled"));
  CHECK(seen.contains("graph_launch"));
  CHECK(seen.contains("stream_synchronize"));
}

TEST_CASE("A6: the same where the update is refused") {
  const std::set<std::string> seen =
      fail_each_call(Road::Refused, cudaGraphNodeTypeKernel, cudaErrorUnknown);
  CHECK(seen.contains("graph_instantiate"));
}

TEST_CASE("A2: the same where memory runs out") {
  (void)fail_each_call(Road::Anew, cudaGraphNodeTypeKernel, cudaErrorMemoryAllocation);
}

TEST_CASE("A6: whichever call of a clone fails, nothing is left over and the original works") {
  (void)fail_each_call(Road::Clone, cudaGraphNodeTypeKernel, cudaErrorUnknown);
  (void)fail_each_call(Road::Clone, cudaGraphNodeTypeHost, cudaErrorUnknown);
}

TEST_CASE("A6: a user step that fails while a rebind records it leaves the executable as it was") {
  FakeCuda fake;
  fake.driver_symbols.clear();  // all steps are recorded
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const other = p.buffer(6, 2.0F);
    p.user_status = Status(StatusCode::Unsupported, "not today");
    const Status status = executable.rebind({{p.x, other}});
    CHECK(status.code() == StatusCode::Unsupported);
    CHECK(says(status, "step 'halve': not today"));
    CHECK(!executable.clone({{p.x, other}}).ok());
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    p.user_status = {};
    p.user_nodes = 0;
    CHECK(says(executable.rebind({{p.x, other}}), "put nothing on the stream"));
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    p.user_nodes = 1;
    CHECK(executable.rebind({{p.x, other}}).ok());
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("A4: a rebind whose capture another thread breaks begins again") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    for (const char* call : {"stream_end_capture", "stream_get_capture_info"}) {
      void* const from = executable.operands()[0].tensor.data;
      float* const other = p.buffer(6, 2.0F);
      fake.forget_calls();
      fake.fail("stream_end_capture", p.patches() ? 1 : 2, cudaErrorStreamCaptureInvalidated);
      const Status status = executable.rebind({{from, other}});
      CHECK_MESSAGE(status.ok(), call, ": ", status.to_string());
      CHECK(fake.count("graph_create") == 2);
      CHECK(fake.count("graph_instantiate") == 0);
      CHECK(launched(fake, executable, p.y) == expected_y(2));
    }
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a user step that makes other nodes than before is shown by nodes()") {
  FakeCuda fake;
  fake.driver_symbols.clear();  // all steps are recorded
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    CHECK(executable.nodes().size() == 5);
    p.user_nodes = 3;
    fake.forget_calls();
    REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F)}}).ok());
    CHECK(fake.count("graph_instantiate") == 1);
    CHECK(fake.count("graph_exec_update") == 0);
    CHECK(executable.nodes().size() == 7);
    CHECK(executable.nodes()[4].name == "halve#3");
    CHECK(launched(fake, executable, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
