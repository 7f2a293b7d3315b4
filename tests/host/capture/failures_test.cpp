#include <doctest/doctest.h>

#include <cctype>
#include <cstring>
#include <set>

#include "fake_program.hpp"

namespace ai::test {
namespace {

/// A program with all that capture does: two layers, a temporary and a user step between them.
struct SmallProgram {
  explicit SmallProgram(FakeCuda& fake, cudaGraphNodeType user = cudaGraphNodeTypeKernel)
      : first(fake, 2, 4, 3), second(fake, 2, 2, 4), backend([&fake](const GemmPlan& plan) {
          return std::vector<Task>{{"forward",
                                    {candidate("fused", gemm_step(fake, plan, "fused", 2.0), false),
                                     candidate("plain", gemm_step(fake, plan, "plain", 3.0))}}};
        }) {
    TensorDesc desc = first.call.Y.desc;
    const Result<Tensor> hidden = program.temporary(desc);
    REQUIRE(hidden.ok());
    first.call.Y = *hidden;
    second.call.A = *hidden;
    REQUIRE(program.add(first.plan()).ok());
    UserStep halve;
    halve.name = "halve";
    halve.reads = {*hidden};
    halve.writes = {*hidden};
    halve.cuda = [&fake, user](const StepContext& context) -> Status {
      auto* const data = static_cast<float*>(context.writes[0].data);
      (void)fake.work(context.stream, user, 1, [data] {
        for (int i = 0; i < 8; ++i) data[i] *= 0.5F;
      });
      return {};
    };
    REQUIRE(program.add(std::move(halve)).ok());
    REQUIRE(program.add(second.plan()).ok());
  }

  Layer first;
  Layer second;
  FakeBackend backend;
  Program program;
};

constexpr float kExpected = 24.0F;  // (3 * 1 * 2 / 2) * 4 * 2

std::string letters(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

bool names(const std::string& text, const std::string& call) {
  return letters(text).find("cuda" + letters(call)) != std::string::npos;
}

/// Calls whose failure hurts nobody: clean-up, courtesy to the caller, and looking after a user's
/// step.
bool may_fail_quietly(const std::string& call) {
  static const std::set<std::string> quiet{
      "stream_destroy",     "event_destroy",       "graph_destroy",
      "free_async",         "mem_pool_trim_to",    "mem_pool_destroy",
      "graph_exec_destroy", "user_object_release", "thread_exchange_stream_capture_mode",
      "get_device",         "stream_synchronize",  "get_driver_entry_point"};
  return quiet.contains(call);
}

/// Complaints that a failing call explains: what was to be restored or freed by it stays as it is.
std::string explained_by(const std::string& call) {
  if (call == "thread_exchange_stream_capture_mode") return "the capture mode was not restored; ";
  // Without knowing the current device, memory cannot be freed on its own.
  if (call == "get_device") return "768 bytes of pool memory left; ";
  return "";
}

bool reports(const Status& status, const std::string& call) {
  // Memory that is short is told by its size instead.
  const bool no_memory =
      call == "malloc_from_pool_async" &&
      status.message().find("bytes of memory were asked for") != std::string::npos;
  return names(status.message(), call) || no_memory;
}

bool reports(const std::string& explain, const std::string& call) {
  return names(explain, call) || explain.find("more than can be had") != std::string::npos;
}

/// Makes the n-th call of a capture fail, for every n. Returns the calls that were reached.
std::set<std::string> fail_each_call(bool measure, cudaError_t code,
                                     cudaGraphNodeType user = cudaGraphNodeTypeKernel) {
  int reached = 0;
  std::set<std::string> seen;
  for (int nth = 1;; ++nth) {
    FakeCuda fake;
    SmallProgram small(fake, user);
    fake.fail_any(nth, code);
    std::string call;
    {
      Result<Executable> executable = capture_fake(fake, small.backend, small.program, measure);
      call = fake.failed();
      if (call.empty()) break;
      ++reached;
      seen.insert(call);
      CAPTURE(nth);
      CAPTURE(call);
      CHECK(fake.last_error == cudaSuccess);
      if (executable.ok()) {
        CHECK((may_fail_quietly(call) || reports(executable->explain(), call)));
        REQUIRE(executable->launch(fake.make_stream()).ok());
        CHECK(small.second.y() == kExpected);
      } else {
        CHECK_MESSAGE(reports(executable.status(), call), executable.status().to_string());
      }
    }
    CAPTURE(nth);
    CAPTURE(call);
    const std::string left = settled(fake);
    CHECK((left.empty() || left == explained_by(call)));
    CHECK(fake.device == 0);
    {
      Result<Executable> again = capture_fake(fake, small.backend, small.program, measure);
      REQUIRE_MESSAGE(again.ok(), again.status().to_string());
      REQUIRE(again->launch(fake.make_stream()).ok());
      CHECK(small.second.y() == kExpected);
    }
    CHECK(settled(fake) == left);
  }
  CHECK(reached > 40);
  for (const char* call :
       {"get_device_count", "pointer_get_attributes", "malloc_from_pool_async",
        "stream_create_with_flags", "stream_begin_capture_to_graph", "stream_get_capture_info",
        "stream_end_capture", "graph_create", "graph_get_nodes", "graph_get_edges",
        "graph_node_get_type", "graph_kernel_node_get_attribute", "graph_instantiate",
        "graph_upload"}) {
    CHECK_MESSAGE(seen.contains(call), call);
  }
  return seen;
}

TEST_CASE("A6: whichever call of a capture fails, its error is reported and nothing is left over") {
  const std::set<std::string> seen = fail_each_call(false, cudaErrorUnknown);
  CHECK(!seen.contains("user_object_create"));  // it would make every launch dearer
}

TEST_CASE("A6: the same where a node without a switch makes the graph retain what it uses") {
  const std::set<std::string> seen = fail_each_call(false, cudaErrorUnknown, cudaGraphNodeTypeHost);
  CHECK(seen.contains("user_object_create"));
  CHECK(seen.contains("graph_retain_user_object"));
}

TEST_CASE("A6: the same while candidates are measured") {
  (void)fail_each_call(true, cudaErrorUnknown);
}

TEST_CASE("A2: whichever call runs out of memory, the next capture works") {
  (void)fail_each_call(false, cudaErrorMemoryAllocation);
}

TEST_CASE("A2: too little memory for the workspace is OutOfMemory") {
  FakeCuda fake;
  SmallProgram small(fake);
  fake.free_bytes = 16;
  const Result<Executable> executable = capture_fake(fake, small.backend, small.program);
  CHECK(executable.status().code() == StatusCode::OutOfMemory);
  CHECK(executable.status().message().find("the workspace") != std::string::npos);
  CHECK(settled(fake) == "");
}

TEST_CASE("D3: an error that the caller has left pending neither fails a capture nor a launch") {
  FakeCuda fake;
  SmallProgram small(fake);
  {
    fake.last_error = cudaErrorInvalidDevice;
    Result<Executable> executable = capture_fake(fake, small.backend, small.program);
    REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
    CHECK(executable->launch(fake.make_stream()).ok());
    CHECK(fake.last_error == cudaErrorInvalidDevice);
  }
  fake.last_error = cudaSuccess;
  CHECK(settled(fake) == "");
}

TEST_CASE("F4: an operand that does not live on the program's device is named") {
  FakeCuda fake;
  const auto refusal = [&fake](void* data) {
    Layer layer(fake, 2, 2, 2);
    layer.call.B.data = data;
    Program program;
    REQUIRE(program.add(layer.plan()).ok());
    FakeBackend backend([](const GemmPlan&) { return std::vector<Task>{}; });
    return capture_fake(fake, backend, program).status();
  };
  float host[4] = {};
  const Status pageable = refusal(host);
  CHECK(pageable.code() == StatusCode::DeviceMismatch);
  CHECK(pageable.message().find("B of forward Y[2,2]") != std::string::npos);
  CHECK(refusal(fake.operand(16, 0, cudaMemoryTypeHost)).code() == StatusCode::DeviceMismatch);
  const Status elsewhere = refusal(fake.operand(16, 1));
  CHECK(elsewhere.code() == StatusCode::DeviceMismatch);
  CHECK(elsewhere.message().find("memory of device 1") != std::string::npos);
  CHECK(refusal(fake.operand(16, 0, cudaMemoryTypeManaged)).ok());
  CHECK(settled(fake) == "");
}

TEST_CASE("capture without a driver or a device is Unsupported") {
  FakeCuda fake;
  SmallProgram small(fake);
  SUBCASE("no device") {
    fake.device_count = 0;
  }
  SUBCASE("no driver") {
    fake.fail("get_device_count", 1, cudaErrorInsufficientDriver);
  }
  CHECK(capture_fake(fake, small.backend, small.program).status().code() ==
        StatusCode::Unsupported);
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
