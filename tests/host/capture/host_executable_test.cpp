#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "ai/ai.hpp"

namespace ai {
namespace {

Tensor host_matrix(std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return make_tensor_2d(values.data(), {rows, cols}, DType::F32, Device::CPU);
}

TensorDesc desc(std::int64_t rows, std::int64_t cols) {
  TensorDesc d;
  d.shape = {rows, cols};
  d.stride = {cols, 1};
  return d;
}

UserStep host_step(const char* name, std::vector<Tensor> reads, std::vector<Tensor> writes,
                   std::function<Status(const StepContext&)> function) {
  UserStep step;
  step.name = name;
  step.reads = std::move(reads);
  step.writes = std::move(writes);
  step.host = std::move(function);
  return step;
}

GemmPlan layer(const Tensor& a, const Tensor& b, const Tensor& y) {
  GemmForward call;
  call.A = a;
  call.B = b;
  call.Y = y;
  Result<GemmPlan> plan = plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return *plan;
}

struct Network {
  std::vector<float> x{1, 2};
  std::vector<float> w1{1, 0, 0, 1};
  std::vector<float> w2{1, 1, 2, 2};
  std::vector<float> y{0, 0};
};

TEST_CASE("a host program runs its plans and user steps in order at every launch") {
  Network net;
  Program program;
  Result<Tensor> hidden = program.temporary(desc(1, 2), Device::CPU);
  REQUIRE(hidden.ok());
  REQUIRE(program.add(layer(host_matrix(net.x, 1, 2), host_matrix(net.w1, 2, 2), *hidden)).ok());
  int calls = 0;
  REQUIRE(program
              .add(host_step("double", {*hidden}, {*hidden},
                             [&calls](const StepContext& context) {
                               ++calls;
                               auto* const values = static_cast<float*>(context.writes[0].data);
                               values[0] *= 2;
                               values[1] *= 2;
                               return context.stream == nullptr ? Status()
                                                                : Status(StatusCode::Invalid, "");
                             }))
              .ok());
  REQUIRE(program.add(layer(*hidden, host_matrix(net.w2, 2, 2), host_matrix(net.y, 1, 2))).ok());

  Result<Executable> executable = capture(program);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  CHECK(executable->tuning().tasks == 0);  // there is one way to do each thing
  CHECK(executable->tuning().seconds == 0);
  program = {};  // the executable needs neither program nor plans
  CHECK(calls == 0);
  REQUIRE(executable->launch().ok());
  CHECK(calls == 1);
  CHECK(net.y[0] == 10);
  net.x = {0, 1};
  REQUIRE(executable->launch().ok());
  REQUIRE(executable->wait().ok());
  CHECK(net.y[1] == 4);

  CHECK(executable->target() == Target::Host);
  CHECK(executable->workspace_bytes() == 256);
  REQUIRE(executable->nodes().size() >= 3);
  CHECK(executable->nodes()[1].name == "double");
  CHECK(executable->nodes()[1].kind == "host");
  CHECK(executable->nodes()[1].depends_on == std::vector<int>{0});
  CHECK(executable->dot().find("n0 -> n1") != std::string::npos);
  CHECK(!executable->explain().empty());
}

TEST_CASE("A6: an exception in a host step becomes a Status that names the step") {
  Network net;
  Program program;
  bool fail = true;
  REQUIRE(program
              .add(host_step("loss", {}, {host_matrix(net.y, 1, 2)},
                             [&fail](const StepContext&) -> Status {
                               if (fail) throw std::runtime_error("boom");
                               return {};
                             }))
              .ok());
  Result<Executable> executable = capture(program);
  REQUIRE(executable.ok());
  const Status status = executable->launch();
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().find("'loss'") != std::string::npos);
  CHECK(status.message().find("boom") != std::string::npos);
  fail = false;
  CHECK(executable->launch().ok());
}

TEST_CASE("what else a host step throws becomes a Status too") {
  Network net;
  Program program;
  int what = 0;
  REQUIRE(program
              .add(host_step("odd", {}, {host_matrix(net.y, 1, 2)},
                             [&what](const StepContext&) -> Status {
                               if (what == 0) throw 5;
                               throw std::bad_alloc();
                             }))
              .ok());
  Result<Executable> executable = capture(program);
  REQUIRE(executable.ok());
  CHECK(executable->launch().code() == StatusCode::Invalid);
  what = 1;
  CHECK(executable->launch().code() == StatusCode::OutOfMemory);
}

TEST_CASE("a host executable holds what it is given until it is given another or dies") {
  Network net;
  Program program;
  REQUIRE(
      program
          .add(layer(host_matrix(net.x, 1, 2), host_matrix(net.w1, 2, 2), host_matrix(net.y, 1, 2)))
          .ok());
  const auto first = std::make_shared<int>(1);
  const auto second = std::make_shared<int>(2);
  {
    Result<Executable> executable = capture(program);
    REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
    executable->hold(first);
    CHECK(first.use_count() == 2);
    executable->hold(second);
    CHECK(first.use_count() == 1);
    REQUIRE(executable->clone().ok());
    CHECK(second.use_count() == 2);
    std::vector<float> odd(5);
    REQUIRE(executable->rebind({{net.y.data(), odd.data() + 1}}).ok());
    REQUIRE(executable->launch().ok());
    CHECK(odd[1] == 1.0F);
    CHECK(second.use_count() == 2);
  }
  CHECK(second.use_count() == 1);
}

TEST_CASE("a failing host step keeps its code and stops the launch") {
  Network net;
  Program program;
  bool reached = false;
  REQUIRE(program
              .add(host_step("first", {}, {host_matrix(net.y, 1, 2)},
                             [](const StepContext&) {
                               return Status(StatusCode::ShapeMismatch, "too small");
                             }))
              .ok());
  REQUIRE(program
              .add(host_step("second", {host_matrix(net.y, 1, 2)}, {},
                             [&reached](const StepContext&) {
                               reached = true;
                               return Status();
                             }))
              .ok());
  Result<Executable> executable = capture(program);
  REQUIRE(executable.ok());
  const Status status = executable->launch();
  CHECK(status.code() == StatusCode::ShapeMismatch);
  CHECK(status.message() == "step 'first': too small");
  CHECK(!reached);
}

TEST_CASE("capture refuses what cannot be captured, and says why") {
  Network net;
  SUBCASE("an empty program") {
    CHECK(capture(Program{}).status().code() == StatusCode::Invalid);
  }
  SUBCASE("a user step without a host function") {
    Program program;
    UserStep step;
    step.name = "adam";
    step.writes = {host_matrix(net.y, 1, 2)};
    step.cuda = [](const StepContext&) { return Status(); };
    REQUIRE(program.add(std::move(step)).ok());
    const Status status = capture(program).status();
    CHECK(status.code() == StatusCode::Invalid);
    CHECK(status.message().find("'adam'") != std::string::npos);
    CHECK(status.message().find("host function") != std::string::npos);
  }
  SUBCASE("a target the tensors do not live on") {
    Program program;
    REQUIRE(program
                .add(layer(host_matrix(net.x, 1, 2), host_matrix(net.w1, 2, 2),
                           host_matrix(net.y, 1, 2)))
                .ok());
    CaptureOptions options;
    options.target = Target::CUDA;
    CHECK(capture(program, options).status().code() == StatusCode::DeviceMismatch);
  }
}

TEST_CASE("C2: a program with nothing to compute is a valid executable") {
  std::vector<float> none;
  std::vector<float> w{1, 2, 3, 4};
  Program program;
  REQUIRE(program.add(layer(host_matrix(none, 0, 2), host_matrix(w, 2, 2), host_matrix(none, 0, 2)))
              .ok());
  Result<Executable> executable = capture(program);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  CHECK(executable->launch().ok());
  CHECK(executable->wait().ok());
}

TEST_CASE("a moved-from executable answers with Invalid") {
  Network net;
  Program program;
  REQUIRE(
      program
          .add(layer(host_matrix(net.x, 1, 2), host_matrix(net.w1, 2, 2), host_matrix(net.y, 1, 2)))
          .ok());
  Result<Executable> executable = capture(program);
  REQUIRE(executable.ok());
  Executable taken = std::move(*executable);
  CHECK(taken.launch().ok());
  CHECK(executable->launch().code() == StatusCode::Invalid);
  CHECK(executable->wait().code() == StatusCode::Invalid);
  CHECK(executable->nodes().empty());
  CHECK(executable->workspace_bytes() == 0);
}

TEST_CASE("the host target is always available") {
  CHECK(target_available(Target::Host).ok());
}

TEST_CASE("a tuning budget that is negative or no number is refused by its name") {
  Network net;
  Program program;
  REQUIRE(
      program
          .add(layer(host_matrix(net.x, 1, 2), host_matrix(net.w2, 2, 2), host_matrix(net.y, 1, 2)))
          .ok());
  CaptureOptions options;
  for (const double budget_s : {-1.0, -1e-9, std::nan("")}) {
    options.tuning_budget_s = budget_s;
    const Result<Executable> made = capture(program, options);
    CHECK(made.status().code() == StatusCode::Invalid);
    const std::string message = made.status().message();
    CHECK_MESSAGE(message.find("tuning_budget_s is ") != std::string::npos, message);
  }
  for (const double budget_s : {0.0, std::numeric_limits<double>::infinity()}) {
    options.tuning_budget_s = budget_s;
    CHECK(capture(program, options).ok());
  }
}

}  // namespace
}  // namespace ai
