#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "movable_program.hpp"
#include "support/intended_leak.hpp"

namespace ai::test {
namespace {

/// Every fake of this program begins with a driver that lets kernels of a graph be replaced.
[[maybe_unused]] const bool kPatches = [] {
  FakeCuda::first_driver_symbols = {"cuGraphKernelNodeGetParams", "cuGraphKernelNodeSetParams"};
  return true;
}();

constexpr const char* kGet = "cuGraphKernelNodeGetParams";
constexpr const char* kSet = "cuGraphKernelNodeSetParams";

void forget_enqueued(MovableProgram& p) {
  for (const auto& step : p.wide) step->enqueued = 0;
}

std::vector<int> enqueued(const MovableProgram& p) {
  std::vector<int> counts;
  for (const auto& step : p.wide) counts.push_back(step->enqueued);
  return counts;
}

TEST_CASE("only the steps of the items that move are recorded, in one capture") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const x = p.buffer(6, 2.0F);
    float* const y = p.buffer(4, 0);
    forget_enqueued(p);
    p.user_status = Status(StatusCode::Invalid, "not again");
    fake.forget_calls();
    REQUIRE(executable.rebind({{p.x, x}}).ok());
    CHECK(enqueued(p) == std::vector<int>{1, 1, 0, 0});
    CHECK(fake.count("stream_begin_capture_to_graph") == 1);
    CHECK(fake.count(kSet) == 2);
    CHECK(fake.count("graph_exec_update") == 1);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    REQUIRE(executable.rebind({{p.y, y}}).ok());
    CHECK(enqueued(p) == std::vector<int>{1, 1, 1, 1});
    CHECK(launched(fake, executable, y) == expected_y(2));
    REQUIRE(executable.rebind({{x, p.x}, {y, p.y}}).ok());
    CHECK(enqueued(p) == std::vector<int>{2, 2, 2, 2});
    CHECK(launched(fake, executable, p.y) == expected_y(1));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("ten rebinds in a row, each launched, enqueued and cloned over the moved operands") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    void* now = p.x;
    for (int i = 1; i <= 10; ++i) {
      float* const next = p.buffer(6, static_cast<float>(i));
      REQUIRE(executable.rebind({{now, next}}).ok());
      now = next;
      const float expected = expected_y(static_cast<float>(i));
      CHECK(launched(fake, executable, p.y) == expected);
      *static_cast<float*>(p.y) = -7.0F;
      REQUIRE(executable.enqueue(fake.make_stream()).ok());
      CHECK(*static_cast<float*>(p.y) == expected);
      float* const y = p.buffer(4, 0);
      Result<Executable> clone = executable.clone({{p.y, y}});
      REQUIRE(clone.ok());
      CHECK(launched(fake, *clone, y) == expected);
      CHECK(operand_at(*clone, now) != nullptr);
    }
    CHECK(fake.count(kSet) == 20);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a step that launches another function now has the whole program recorded, ever after") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const second = p.buffer(6, 2.0F);
    fake.kernel_function = 2;
    fake.forget_calls();
    REQUIRE(executable.rebind({{p.x, second}}).ok());
    CHECK(fake.count(kSet) == 0);
    CHECK(fake.count("graph_instantiate") == 0);
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    fake.kernel_function = 1;
    forget_enqueued(p);
    REQUIRE(executable.rebind({{second, p.x}}).ok());
    CHECK(enqueued(p) == std::vector<int>{1, 1, 1, 1});
    CHECK(fake.count(kSet) == 0);
    CHECK(launched(fake, executable, p.y) == expected_y(1));
    // Until the graph is made anew.
    fake.refusals = 1;
    REQUIRE(executable.rebind({{p.x, second}}).ok());
    REQUIRE(executable.rebind({{second, p.x}}).ok());
    CHECK(fake.count(kSet) == 2);
    CHECK(launched(fake, executable, p.y) == expected_y(1));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("where nothing moves, nothing is recorded but user steps, with all the others") {
  FakeCuda fake;
  MovableProgram p(fake);
  const Layer layer(fake, 2, 2, 2);
  Program plain;
  REQUIRE(plain.add(layer.plan()).ok());
  {
    Result<Executable> executable = capture_fake(fake, p.backend, plain);
    REQUIRE(executable.ok());
    fake.forget_calls();
    REQUIRE(executable->rebind({{layer.call.A.data, layer.call.A.data}}).ok());
    CHECK(fake.count("stream_begin_capture_to_graph") == 0);
    CHECK(fake.count("graph_exec_update") == 0);
    Executable with_user = p.capture();
    fake.forget_calls();
    p.user_status = Status(StatusCode::Unsupported, "not today");
    CHECK(says(with_user.rebind({{p.x, p.x}}), "not today"));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("user steps that move are recorded with the whole program") {
  FakeCuda fake;
  const Layer layer(fake, 2, 2, 2);
  auto* const memory = static_cast<float*>(fake.operand(64));
  UserStep user;
  user.name = "set";
  user.writes = {make_tensor_2d(memory, {1, 4})};
  user.cuda = [&](const StepContext& context) -> Status {
    auto* const to = static_cast<float*>(context.writes[0].data);
    (void)fake.work(context.stream, cudaGraphNodeTypeKernel, 1, [to] { *to = 1.0F; });
    return {};
  };
  FakeBackend backend([&](const GemmPlan& plan) {
    return std::vector<Task>{{"forward", {candidate("plain", gemm_step(fake, plan, "gemm", 1))}}};
  });
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  REQUIRE(program.add(std::move(user)).ok());
  {
    Result<Executable> executable = capture_fake(fake, backend, program);
    REQUIRE(executable.ok());
    auto* const other = static_cast<float*>(fake.operand(64));
    REQUIRE(executable->rebind({{memory, other}}).ok());
    CHECK(fake.count(kSet) == 0);
    *memory = -7.0F;
    CHECK(launched(fake, *executable, other) == 1.0F);
    CHECK(*memory == -7.0F);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("without one of the two driver functions the whole program is recorded") {
  for (const char* only : {kGet, kSet}) {
    FakeCuda fake;
    fake.driver_symbols = {only};
    MovableProgram p(fake);
    {
      Executable executable = p.capture();
      forget_enqueued(p);
      REQUIRE(executable.rebind({{p.x, p.buffer(6, 2.0F)}}).ok());
      CHECK(enqueued(p) == std::vector<int>{1, 1, 1, 1});
      CHECK(launched(fake, executable, p.y) == expected_y(2));
    }
    CHECK(settled(fake) == "");
  }
}

/// One step that launches as many kernels as `*kernels` says, the last of which does the work.
Task many_kernels(FakeCuda& fake, const GemmPlan& plan, const int* kernels) {
  const GemmForward call = plan.forward();
  const auto body = [&fake, call, kernels](const AddressMap& addresses, Stream stream) {
    const auto* const a = static_cast<const float*>(addresses(call.A).data);
    auto* const y = static_cast<float*>(addresses(call.Y).data);
    for (int i = 1; i <= *kernels; ++i) {
      (void)fake.work(stream, cudaGraphNodeTypeKernel, 1, [=] { *y = *a; });
    }
    return Status();
  };
  auto step = std::make_shared<TestStep>("many", std::vector{range_of(call.A), range_of(call.B)},
                                         std::vector{range_of(call.Y)}, body);
  return {"forward", {candidate("many", std::move(step))}};
}

TEST_CASE("a step that makes no kernel or several is not patched, nor one that comes to") {
  struct Case {
    int before;
    int after;
    int set;
    bool works;  // whether there is a result at all
  };
  for (const Case& one :
       {Case{1, 1, 1, true}, Case{2, 2, 0, true}, Case{1, 2, 0, true}, Case{2, 1, 0, true},
        Case{0, 0, 0, false}, Case{0, 1, 0, true}, Case{1, 0, 0, false}}) {
    CAPTURE(one.before);
    CAPTURE(one.after);
    FakeCuda fake;
    const Layer layer(fake, 2, 2, 2);
    int kernels = one.before;
    FakeBackend backend([&](const GemmPlan& plan) {
      return std::vector<Task>{many_kernels(fake, plan, &kernels)};
    });
    Program program;
    REQUIRE(program.add(layer.plan()).ok());
    {
      Result<Executable> executable = capture_fake(fake, backend, program);
      REQUIRE(executable.ok());
      kernels = one.after;
      auto* const other = static_cast<float*>(fake.operand(64));
      *other = 5.0F;
      REQUIRE(executable->rebind({{layer.call.A.data, other}}).ok());
      CHECK(fake.count(kSet) == one.set);
      CHECK(fake.count("graph_instantiate") == (one.before == one.after ? 1 : 2));
      CHECK(launched(fake, *executable, layer.call.Y.data) == (one.works ? 5.0F : -7.0F));
    }
    CHECK(settled(fake) == "");
  }
}

TEST_CASE("A6: a kernel that cannot be replaced leaves the others as they were") {
  for (int nth = 1; nth <= 2; ++nth) {
    for (const bool recorded : {true, false}) {  // the whole program afterwards
      CAPTURE(nth);
      CAPTURE(recorded);
      FakeCuda fake;
      MovableProgram p(fake);
      {
        Executable executable = p.capture();
        float* const other = p.buffer(6, 2.0F);
        fake.fail(kSet, nth, cudaErrorUnknown);
        // The captures are: the moved steps over the new and over the old addresses, all steps.
        if (!recorded) fake.fail("graph_create", 3, cudaErrorUnknown);
        const Status status = executable.rebind({{p.x, other}});
        CHECK(status.ok() == recorded);
        CHECK(fake.count("graph_instantiate") == 1);
        CHECK(launched(fake, executable, p.y) == expected_y(recorded ? 2 : 1));
        // The node of the step that did not move still does what it did.
        float* const y = p.buffer(4, 0);
        REQUIRE(executable.rebind({{p.y, y}}).ok());
        CHECK(launched(fake, executable, y) == expected_y(recorded ? 2 : 1));
      }
      CHECK(settled(fake) == "");
    }
  }
}

TEST_CASE("A6: kernels that cannot be put back make the graph anew, and if not, launches fail") {
  for (const bool anew : {true, false}) {
    CAPTURE(anew);
    const support::IntendedLeak leak;
    FakeCuda fake;
    MovableProgram p(fake);
    {
      Executable executable = p.capture();
      CHECK(launched(fake, executable, p.y) == expected_y(1));
      REQUIRE(executable.wait().ok());
      float* const other = p.buffer(6, 2.0F);
      SUBCASE("a kernel was refused") {
        fake.fail(kSet, 2, cudaErrorUnknown);
      }
      SUBCASE("the update was refused") {
        fake.refusals = 1;
      }
      fake.fail("graph_create", 2, cudaErrorUnknown);
      if (!anew) fake.fail("graph_instantiate", 1, cudaErrorUnknown);
      const Status status = executable.rebind({{p.x, other}});
      CHECK_MESSAGE(status.ok() == anew, status.to_string());
      CHECK(fake.last_error == cudaSuccess);
      if (anew) {
        CHECK(launched(fake, executable, p.y) == expected_y(2));
        const int before = fake.count(kSet);
        REQUIRE(executable.rebind({{other, p.x}}).ok());
        CHECK(fake.count(kSet) == before + 2);
        CHECK(launched(fake, executable, p.y) == expected_y(1));
      } else {
        CHECK(says(status, "works no more"));
        CHECK(!executable.launch(fake.make_stream()).ok());
      }
    }
    detail::reclaim(FakeCuda::api());
    CHECK(fake.last_error == cudaSuccess);
  }
}

TEST_CASE("A6: after a refused update a patched graph is as before, and can be patched again") {
  FakeCuda fake;
  MovableProgram p(fake);
  {
    Executable executable = p.capture();
    float* const second = p.buffer(6, 2.0F);
    float* const third = p.buffer(6, 3.0F);
    REQUIRE(executable.rebind({{p.x, second}}).ok());
    fake.refusals = 1;
    fake.fail("graph_instantiate", 1, cudaErrorUnknown);
    const Status status = executable.rebind({{second, third}});
    CHECK(says(status, "works on over its old pointers"));
    CHECK(launched(fake, executable, p.y) == expected_y(2));
    forget_enqueued(p);
    REQUIRE(executable.rebind({{second, third}}).ok());
    CHECK(enqueued(p) == std::vector<int>{1, 1, 0, 0});
    CHECK(launched(fake, executable, p.y) == expected_y(3));
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
