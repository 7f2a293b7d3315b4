#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "fused_program.hpp"

using ai::Executable;
using ai::GemmForward;
using ai::Tensor;
using ai::test::FusedProgram;
using ai::test::has;
using ai::test::names;
using Names = std::vector<std::string>;
using Values = std::vector<float>;

namespace {

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.desc.shape[0] * tensor.desc.shape[1]) * sizeof(float);
}

/// 3 -> 4 -> 4 -> 2 with Ys in user memory but the second's.
struct Chain : FusedProgram {
  Chain() {
    add(4);
    add(4, true);
    add(2);
  }
  /// A copy of the tensor elsewhere, `shift` floats behind what CUDA would give.
  Tensor elsewhere(const Tensor& tensor, std::size_t shift = 0) {
    Tensor moved = tensor;
    auto* const data = static_cast<float*>(fake.operand(bytes_of(tensor) + 64)) + shift;
    std::memcpy(data, tensor.data, bytes_of(tensor));
    moved.data = data;
    return moved;
  }
};

Values of(const std::vector<GemmForward>& calls) {
  return FusedProgram::expected(calls);
}

}  // namespace

TEST_CASE("a run follows its operands") {
  Chain chain;
  Executable executable = chain.capture();
  REQUIRE(names(executable) == Names{"chain/1"});
  auto calls = chain.calls();
  CHECK(executable.operands().size() == 7);
  CHECK(executable.operands()[0].item == "forward Y[2,4]");
  const Tensor x = chain.elsewhere(calls[0].A);
  const Tensor w = chain.elsewhere(calls[1].B);
  const Tensor y = chain.elsewhere(calls[2].Y);
  const Tensor first = chain.elsewhere(calls[0].Y);
  static_cast<float*>(x.data)[0] = 5;
  static_cast<float*>(w.data)[3] = 7;
  const int lowered = chain.backend.lowered;
  const Values old = FusedProgram::values(calls[2].Y);
  REQUIRE(executable
              .rebind({{calls[0].A.data, x.data},
                       {calls[1].B.data, w.data},
                       {calls[0].Y.data, first.data},
                       {calls[2].Y.data, y.data}})
              .ok());
  REQUIRE(executable.launch(nullptr).ok());
  calls[0].A = x;
  calls[1].B = w;
  CHECK(FusedProgram::values(y) == of(calls));
  CHECK(FusedProgram::values(first) == of({calls[0]}));
  CHECK(FusedProgram::values(chain.layers[2].call.Y) == old);
  CHECK(names(executable) == Names{"chain/1"});
  CHECK(chain.backend.lowered == lowered);
}

TEST_CASE("a clone has a run of its own") {
  Chain chain;
  Executable executable = chain.capture();
  auto calls = chain.calls();
  const Tensor y = chain.elsewhere(calls[2].Y);
  ai::Result<Executable> clone = executable.clone({{calls[2].Y.data, y.data}});
  REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
  CHECK(names(*clone) == Names{"chain/1"});
  REQUIRE(clone->launch(nullptr).ok());
  CHECK(FusedProgram::values(y) == of(calls));
  CHECK(FusedProgram::values(calls[2].Y) == Values(4, -1.0F));
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(FusedProgram::values(calls[2].Y) == of(calls));
}

TEST_CASE("a run over memory that is aligned less is made anew") {
  Chain chain;
  Executable executable = chain.capture();
  auto calls = chain.calls();
  const Tensor x = chain.elsewhere(calls[0].A, 1);
  const int lowered = chain.backend.lowered;
  Names expected = {"chain/1"};  // what it had, not what comes first
  SUBCASE("as it was") {}
  SUBCASE("plan by plan where it cannot be as a whole") {
    chain.backend.needs_alignment = true;
    expected = {"plain", "plain", "plain"};
  }
  SUBCASE("plan by plan where it cannot be loaded") {
    chain.backend.without_module = "chain/1";
    expected = {"plain", "plain", "plain"};
  }
  REQUIRE(executable.rebind({{calls[0].A.data, x.data}}).ok());
  CHECK(names(executable) == expected);
  CHECK((chain.backend.lowered > lowered) == (expected.size() > 1));
  REQUIRE(executable.launch(nullptr).ok());
  calls[0].A = x;
  CHECK(FusedProgram::values(calls[2].Y) == of(calls));
  CHECK(FusedProgram::values(calls[0].Y) == of({calls[0]}));
  // And back.
  REQUIRE(executable.rebind({{x.data, chain.layers[0].call.A.data}}).ok());
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(FusedProgram::values(calls[2].Y) == of(chain.calls()));
}

TEST_CASE("what a capture ruled out is ruled out for a run that is made anew") {
  Chain chain;
  chain.options.cooperative_launches = false;
  Executable executable = chain.capture();
  const Tensor x = chain.elsewhere(chain.layers[0].call.A, 1);
  REQUIRE(executable.rebind({{chain.layers[0].call.A.data, x.data}}).ok());
  CHECK(chain.backend.cooperative == std::vector<bool>{false, false});
}

TEST_CASE("a run leaves nothing behind") {
  Chain chain;
  {
    Executable executable = chain.capture();
    REQUIRE(executable.launch(nullptr).ok());
    const auto calls = chain.calls();
    const Tensor x = chain.elsewhere(calls[0].A, 1);
    REQUIRE(executable.rebind({{calls[0].A.data, x.data}}).ok());
    REQUIRE(executable.rebind({{calls[2].B.data, calls[0].Y.data}}).ok());
    REQUIRE(executable.launch(nullptr).ok());
  }
  CHECK(settled(chain.fake) == "");
}

TEST_CASE("a run is taken apart where a move ties its plans to each other") {
  Chain chain;
  Executable executable = chain.capture();
  auto calls = chain.calls();
  // The last weights become what the first layer writes.
  SUBCASE("in place") {
    REQUIRE(executable.rebind({{calls[2].B.data, calls[0].Y.data}}).ok());
  }
  SUBCASE("in a clone") {
    ai::Result<Executable> clone = executable.clone({{calls[2].B.data, calls[0].Y.data}});
    REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
    CHECK(names(executable) == Names{"chain/1"});
    executable = std::move(*clone);
  }
  CHECK(names(executable) == Names{"plain", "plain", "plain"});
  CHECK(executable.operands().size() == 7);
  REQUIRE(executable.launch(nullptr).ok());
  const Values first = of({calls[0]});
  CHECK(FusedProgram::values(calls[0].Y) == first);
  calls[2].B.data = calls[0].Y.data;
  CHECK(FusedProgram::values(calls[2].Y) == of(calls));
  // Every operand still moves by itself.
  const Tensor y = chain.elsewhere(calls[2].Y);
  REQUIRE(executable.rebind({{calls[2].Y.data, y.data}}).ok());
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(FusedProgram::values(y) == of(calls));
}

TEST_CASE("and where it ties a plan to what it has moved over") {
  FusedProgram chain;
  chain.add(4);
  const Tensor shared = ai::make_tensor_2d(chain.fake.operand(64), {4, 2});
  ai::test::Layer::fill(shared, 9);
  ai::UserStep step;
  step.name = "make weights";
  step.writes = {shared};
  step.cuda = [&](const ai::StepContext& context) -> ai::Status {
    auto* const data = static_cast<float*>(context.writes[0].data);
    (void)chain.fake.work(context.stream, cudaGraphNodeTypeKernel, 1,
                          [data] { std::fill(data, data + 8, data[0] + 1); });
    return {};
  };
  REQUIRE(chain.program.add(std::move(step)).ok());
  chain.add(2);
  Executable executable = chain.capture();
  REQUIRE(names(executable).size() == 2);
  auto calls = chain.calls();
  SUBCASE("by the plan's operand") {
    REQUIRE(executable.rebind({{calls[1].B.data, shared.data}}).ok());
    calls[1].B.data = shared.data;
  }
  SUBCASE("by the step's operand") {
    REQUIRE(executable.rebind({{shared.data, calls[1].B.data}}).ok());
  }
  CHECK(names(executable).size() == 3);
  REQUIRE(executable.launch(nullptr).ok());
  const Values weights = FusedProgram::values(calls[1].B);
  CHECK(std::count(weights.begin(), weights.end(), weights[0]) == 8);  // the step has run
  CHECK(FusedProgram::values(calls[1].Y) == of(calls));                // and then the plan
}
