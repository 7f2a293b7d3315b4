#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>

#include "movable_program.hpp"

namespace ai::test {
namespace {

TEST_CASE("a clone works over its own buffers and workspace, with the same candidates") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    const std::size_t bytes = fake.pool_bytes();
    float* const x = p.buffer(6, 2.0F);
    float* const y = p.buffer(4, 0);
    p.lowered = 0;
    fake.hold();  // the original is in flight
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    Result<Executable> clone = executable.clone({{p.x, x}, {p.y, y}});
    REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
    CHECK(p.lowered == 0);
    CHECK(fake.pool_bytes() == 2 * bytes);
    CHECK(clone->explain() == executable.explain());
    CHECK(clone->dot() == executable.dot());
    CHECK(clone->workspace_bytes() == executable.workspace_bytes());
    CHECK(operand_at(*clone, x) != nullptr);
    CHECK(operand_at(executable, x) == nullptr);
    CHECK(launched(fake, *clone, y) == expected_y(2));
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    fake.complete();
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a clone outlives its original, and can be cloned and rebound itself") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    auto original = std::make_unique<Executable>(p.capture());
    float* const x = p.buffer(6, 2.0F);
    float* const odd = p.buffer(6, 3.0F, 1);
    REQUIRE(original->rebind({{p.x, x}}).ok());
    Result<Executable> clone = original->clone();
    REQUIRE(clone.ok());
    REQUIRE(original->launch(fake.make_stream()).ok());
    original.reset();
    CHECK(launched(fake, *clone, p.y) == expected_y(2));
    Result<Executable> second = clone->clone({{x, odd}});
    REQUIRE_MESSAGE(second.ok(), second.status().to_string());
    CHECK(second->nodes()[0].name == "narrow");
    CHECK(clone->nodes()[1].name == "wide");
    clone = Status(StatusCode::Invalid, "gone");
    CHECK(launched(fake, *second, p.y) == expected_y(3));
    REQUIRE(second->rebind({{odd, x}}).ok());
    CHECK(launched(fake, *second, p.y) == expected_y(2));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE(
    "a clone has a copy of each user step's function, and shares no state with the original") {
  FakeCuda fake;
  float* const memory = static_cast<float*>(fake.operand(64));
  const auto alive = std::make_shared<int>(0);
  UserStep step;
  step.name = "count";
  step.writes = {make_tensor_2d(memory, {1, 1})};
  step.cuda = [&fake, alive, calls = 0](const StepContext& context) mutable -> Status {
    ++calls;
    auto* const to = static_cast<float*>(context.writes[0].data);
    (void)fake.work(context.stream, cudaGraphNodeTypeKernel, 1,
                    [to, now = calls] { *to = static_cast<float>(now); });
    return {};
  };
  Program program;
  REQUIRE(program.add(std::move(step)).ok());
  FakeBackend backend([](const GemmPlan&) { return std::vector<Task>{}; });
  {
    Result<Executable> executable = capture_fake(fake, backend, program);
    program = {};
    REQUIRE(executable.ok());
    REQUIRE(executable->rebind({}).ok());
    CHECK(launched(fake, *executable, memory) == 2.0F);
    Result<Executable> clone = executable->clone({{memory, memory + 4}});
    REQUIRE(clone.ok());
    CHECK(launched(fake, *clone, memory + 4) == 1.0F);
    REQUIRE(executable->rebind({}).ok());
    CHECK(launched(fake, *executable, memory) == 3.0F);
    CHECK(launched(fake, *clone, memory + 4) == 1.0F);
    CHECK(alive.use_count() > 2);
  }
  CHECK(settled(fake) == "");
  CHECK(alive.use_count() == 1);
}

TEST_CASE("a user step's function that cannot be copied is Invalid, and changes nothing") {
  struct Fickle {
    explicit Fickle(bool* may) : may_copy(may) {}
    Fickle(const Fickle& other) : may_copy(other.may_copy) {
      if (!*may_copy) throw std::runtime_error("no copies");
    }
    Fickle(Fickle&&) = default;
    Status operator()(const StepContext& context) const {
      return FakeCuda::api().memset_async(context.writes[0].data, 0, 4, context.stream) ==
                     cudaSuccess
                 ? Status()
                 : Status(StatusCode::CudaError, "memset");
    }
    bool* may_copy;
  };
  FakeCuda fake;
  bool may_copy = true;
  auto* const memory = static_cast<float*>(fake.operand(64));
  UserStep step;
  step.name = "fickle";
  step.writes = {make_tensor_2d(memory, {1, 1})};
  step.cuda = Fickle(&may_copy);
  Program program;
  REQUIRE(program.add(std::move(step)).ok());
  FakeBackend backend([](const GemmPlan&) { return std::vector<Task>{}; });
  {
    Result<Executable> executable = capture_fake(fake, backend, program);
    REQUIRE(executable.ok());
    may_copy = false;
    CHECK(says(executable->clone().status(), "threw an exception"));
    CHECK(executable->rebind({{memory, memory + 4}}).ok());  // in place copies nothing
    fake.refusals = 1;
    CHECK(says(executable->rebind({{memory + 4, memory + 8}}), "threw an exception"));
    CHECK(fake.last_error == cudaSuccess);
    CHECK(launched(fake, *executable, memory + 4) == 0.0F);
    CHECK(operand_at(*executable, memory + 4) != nullptr);
    may_copy = true;
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a moved-from executable has no operands and neither rebinds nor clones") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    const Executable taken = std::move(executable);
    CHECK(executable.operands().empty());
    CHECK(executable.rebind({}).code() == StatusCode::Invalid);
    CHECK(executable.clone().status().code() == StatusCode::Invalid);
    CHECK(taken.operands().size() == 4);
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
