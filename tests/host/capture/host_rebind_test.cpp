#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ai/ai.hpp"

namespace ai {
namespace {

Tensor matrix(float* data, std::int64_t rows, std::int64_t cols) {
  return make_tensor_2d(data, {rows, cols}, DType::F32, Device::CPU);
}

Executable captured(const GemmForward& call) {
  const Result<GemmPlan> plan = plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  Program program;
  REQUIRE(program.add(*plan).ok());
  Result<Executable> executable = capture(program);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(*executable);
}

struct Square {
  std::vector<float> a = std::vector<float>(9, 1.0F);
  std::vector<float> b = std::vector<float>(9, 2.0F);
  std::vector<float> y = std::vector<float>(9, 0.0F);
  std::vector<float> bias = {10, 20, 30};
  [[nodiscard]] GemmForward call() {
    GemmForward call;
    call.A = matrix(a.data(), 3, 3);
    call.B = matrix(b.data(), 3, 3);
    call.Y = matrix(y.data(), 3, 3);
    return call;
  }
};

TEST_CASE("operands() says which are written: outputs, gradients, what steps and copies fill") {
  std::vector<std::vector<float>> memory(9, std::vector<float>(9, 1.0F));
  const auto m = [&memory](std::size_t i) { return matrix(memory[i].data(), 3, 3); };
  const Result<GemmPlan> forward =
      plan_forward({.A = m(1), .B = m(2), .Y = m(3), .Z = m(4), .attrs = {.act = ActKind::Tanh}});
  const Result<GemmPlan> backward =
      plan_backward({.A = m(1),
                     .B = m(2),
                     .gY = m(5),
                     .Z = m(4),
                     .gA = m(6),
                     .gBias = Gradient(make_tensor_1d(memory[7].data(), 3, DType::F32, Device::CPU),
                                       GradMode::Accumulate),
                     .attrs = {.act = ActKind::Tanh}});
  REQUIRE_MESSAGE(forward.ok(), forward.status().to_string());
  REQUIRE_MESSAGE(backward.ok(), backward.status().to_string());
  Program program;
  REQUIRE(program.copy_in(m(0), m(1)).ok());
  REQUIRE(program.add(*forward).ok());
  UserStep step;
  step.name = "loss";
  step.reads = {m(3)};
  step.writes = {m(5)};
  step.host = [](const StepContext&) -> Status { return {}; };
  REQUIRE(program.add(step).ok());
  REQUIRE(program.add(*backward).ok());
  REQUIRE(program.copy_out(m(6), m(8)).ok());
  const Result<Executable> executable = capture(program);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  std::string written;
  std::string read;
  for (const BoundOperand& operand : executable->operands()) {
    (operand.is_written ? written : read) += operand.name + " ";
  }
  CHECK(written == "device Y Z writes[0] gA gBias host ");
  CHECK(read == "host A B reads[0] B gY Z device ");
}

TEST_CASE("B4: on the host a rebind moves inputs and outputs, all or nothing") {
  Square net;
  Executable executable = captured(net.call());
  Square other;
  other.a.assign(9, 5.0F);
  REQUIRE(executable.rebind({{net.a.data(), other.a.data()}}).ok());
  net.a.assign(9, std::numeric_limits<float>::quiet_NaN());
  REQUIRE(executable.launch().ok());
  CHECK(net.y[8] == 30.0F);
  CHECK(
      executable.rebind({{net.y.data(), other.y.data()}, {net.a.data(), other.a.data()}}).code() ==
      StatusCode::Invalid);
  CHECK(executable.rebind({{net.y.data(), net.b.data() + 3}}).code() == StatusCode::Overlap);
  CHECK(executable.rebind({{other.a.data(), nullptr}}).code() == StatusCode::Invalid);
  net.y.assign(9, 0.0F);
  REQUIRE(executable.launch().ok());
  CHECK(net.y[8] == 30.0F);
  CHECK(other.y[0] == 0.0F);
  CHECK(executable.operands()[0].tensor.data == other.a.data());
}

TEST_CASE("a bias along M stays along M where M is N, also of a gradient") {
  Square net;
  GemmForward call = net.call();
  call.bias = matrix(net.bias.data(), 3, 1);
  Executable executable = captured(call);
  Square other;
  REQUIRE(executable.rebind({{net.bias.data(), other.bias.data()}, {net.y.data(), other.y.data()}})
              .ok());
  REQUIRE(executable.launch().ok());
  CHECK(other.y[1] == 16.0F);
  CHECK(other.y[3] == 26.0F);

  // An operand that is less aligned makes the step anew, from the plan as it was moved.
  std::vector<float> odd(10, 1.0F);
  float* const to = odd.data() + (reinterpret_cast<std::uintptr_t>(odd.data()) % 8 == 0 ? 1 : 0);
  REQUIRE(executable.rebind({{net.a.data(), to}}).ok());
  REQUIRE(executable.launch().ok());
  CHECK(other.y[3] == 26.0F);

  GemmBackward back;
  back.A = matrix(net.a.data(), 3, 3);
  back.B = matrix(net.b.data(), 3, 3);
  std::vector<float> gy = {1, 2, 3, 0, 0, 0, 0, 0, 0};
  back.gY = matrix(gy.data(), 3, 3);
  std::vector<float> gbias(3, -1.0F);
  back.gBias = Gradient(matrix(gbias.data(), 3, 1));
  const Result<GemmPlan> plan = plan_backward(back);
  REQUIRE(plan.ok());
  Program program;
  REQUIRE(program.add(*plan).ok());
  Result<Executable> backward = capture(program);
  REQUIRE(backward.ok());
  std::vector<float> moved(4, -1.0F);
  REQUIRE(backward->rebind({{gbias.data(), moved.data()}}).ok());
  REQUIRE(backward->rebind({{moved.data(), moved.data() + 1}}).ok());
  REQUIRE(backward->launch().ok());
  CHECK(moved == std::vector<float>{-1, 6, 0, 0});
}

TEST_CASE("C in the place of Y leaves it and comes back") {
  Square net;
  GemmForward call = net.call();
  call.C = call.Y;
  call.attrs.beta = 1.0F;
  Executable executable = captured(call);
  Square other;
  REQUIRE(executable.rebind({{net.y.data(), other.y.data()}}).ok());
  REQUIRE(executable.launch().ok());
  REQUIRE(executable.launch().ok());
  CHECK(other.y[0] == 12.0F);
}

/// y = 2 * temporary, that a plan writes.
Executable through_temporary(Square& net) {
  Program program;
  TensorDesc desc = matrix(nullptr, 3, 3).desc;
  const Result<Tensor> hidden = program.temporary(desc, Device::CPU);
  REQUIRE(hidden.ok());
  GemmForward call = net.call();
  call.Y = *hidden;
  REQUIRE(program.add(*plan_forward(call)).ok());
  UserStep twice;
  twice.name = "twice";
  twice.reads = {*hidden};
  twice.writes = {matrix(net.y.data(), 3, 3)};
  twice.host = [](const StepContext& context) {
    for (int i = 0; i < 9; ++i) {
      static_cast<float*>(context.writes[0].data)[i] =
          2 * static_cast<const float*>(context.reads[0].data)[i];
    }
    return Status();
  };
  REQUIRE(program.add(std::move(twice)).ok());
  Result<Executable> executable = capture(program);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(*executable);
}

TEST_CASE("clones on threads of their own share nothing, user steps among it") {
  Square net;
  Executable executable = through_temporary(net);
  CHECK(executable.operands().size() == 3);
  constexpr int kClones = 4;
  std::vector<Square> others(kClones);
  std::vector<Executable> clones;
  for (int i = 0; i < kClones; ++i) {
    Square& other = others[static_cast<std::size_t>(i)];
    other.a.assign(9, static_cast<float>(i));
    Result<Executable> clone =
        executable.clone({{net.a.data(), other.a.data()}, {net.y.data(), other.y.data()}});
    REQUIRE_MESSAGE(clone.ok(), clone.status().to_string());
    clones.push_back(std::move(*clone));
  }
  std::vector<std::thread> threads;
  for (Executable& clone : clones) {
    threads.emplace_back([&clone] {
      for (int i = 0; i < 200; ++i) (void)clone.launch();
    });
  }
  for (int i = 0; i < 200; ++i) REQUIRE(executable.launch().ok());
  for (std::thread& thread : threads) thread.join();
  CHECK(net.y[4] == 12.0F);
  for (int i = 0; i < kClones; ++i) {
    CHECK(others[static_cast<std::size_t>(i)].y ==
          std::vector<float>(9, 12.0F * static_cast<float>(i)));
  }
}

TEST_CASE("a move that changes the order of the steps changes nodes() and the workspace") {
  Square one;
  Square two;
  Program program;
  REQUIRE(program.add(*plan_forward(one.call())).ok());
  REQUIRE(program.add(*plan_forward(two.call())).ok());
  Result<Executable> executable = capture(program);
  REQUIRE(executable.ok());
  CHECK(executable->nodes()[1].depends_on.empty());
  REQUIRE(executable->rebind({{two.a.data(), one.y.data()}}).ok());
  CHECK(executable->nodes()[1].depends_on == std::vector<int>{0});
  REQUIRE(executable->launch().ok());
  CHECK(two.y[0] == 36.0F);
}

TEST_CASE("copies move with either side, and may not come to overlap") {
  std::vector<float> host(9, 3.0F);
  std::vector<float> device(9, 0.0F);
  std::vector<float> other(18, 4.0F);
  Program program;
  REQUIRE(program.copy_in(matrix(host.data(), 3, 3), matrix(device.data(), 3, 3)).ok());
  Result<Executable> executable = capture(program);
  REQUIRE(executable.ok());
  REQUIRE(executable->rebind({{host.data(), other.data()}}).ok());
  REQUIRE(executable->launch().ok());
  CHECK(device[0] == 4.0F);
  CHECK(executable->rebind({{device.data(), other.data() + 8}}).code() == StatusCode::Overlap);
  REQUIRE(executable->rebind({{device.data(), other.data() + 9}}).ok());
  other[0] = 7.0F;
  REQUIRE(executable->launch().ok());
  CHECK(other[9] == 7.0F);
}

}  // namespace
}  // namespace ai
