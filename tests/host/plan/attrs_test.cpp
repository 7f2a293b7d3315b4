#include <limits>

#include "host/plan/plan_support.hpp"

using namespace plan_test;
using ai::ActKind;
using ai::GradMode;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("rule act: a value outside ActKind is refused in both directions") {
  for (const int value : {-1, 9, 1000}) {
    const std::string message = "act is " + std::to_string(value) + ", expected one of ActKind";
    GemmForward forward = full_forward();
    forward.attrs.act = static_cast<ActKind>(value);
    check_refused(forward, StatusCode::Invalid, message);
    GemmBackward backward = full_backward();
    backward.attrs.act = static_cast<ActKind>(value);
    check_refused(backward, StatusCode::Invalid, message);
  }
}

TEST_CASE("rule act: every ActKind is planned in both directions") {
  for (int value = 0; value <= static_cast<int>(ActKind::Tanh); ++value) {
    GemmForward forward = full_forward();
    forward.attrs.act = static_cast<ActKind>(value);
    check_ok(forward);
    GemmBackward backward = full_backward();
    backward.attrs.act = static_cast<ActKind>(value);
    check_ok(backward);
  }
}

TEST_CASE("rule precision: only F32 is supported") {
  GemmForward forward = full_forward();
  forward.attrs.precision = static_cast<ai::Precision>(3);
  check_refused(forward, StatusCode::Unsupported, "precision is 3, expected Precision::F32");
  GemmBackward backward = full_backward();
  backward.attrs.precision = static_cast<ai::Precision>(3);
  check_refused(backward, StatusCode::Unsupported, "precision is 3, expected Precision::F32");
}

TEST_CASE("rule alpha: NaN and Inf are refused in both directions") {
  GemmForward forward = full_forward();
  forward.attrs.alpha = kNaN;
  check_refused(forward, StatusCode::Invalid, "alpha is nan, expected a finite number");
  GemmBackward backward = full_backward();
  backward.attrs.alpha = -kInf;
  check_refused(backward, StatusCode::Invalid, "alpha is -inf, expected a finite number");
}

TEST_CASE("rule beta: NaN and Inf are refused in both directions") {
  GemmForward forward = full_forward();
  forward.attrs.beta = kInf;
  check_refused(forward, StatusCode::Invalid, "beta is inf, expected a finite number");
  GemmBackward backward = full_backward();
  backward.attrs.beta = kNaN;
  check_refused(backward, StatusCode::Invalid, "beta is nan, expected a finite number");
}

TEST_CASE("rule slope: C20 a slope of NaN or Inf is refused in both directions") {
  for (const float slope : {kNaN, kInf, -kInf}) {
    GemmForward forward = full_forward();
    forward.attrs.leaky_slope = slope;
    CHECK(plan(forward).status().code() == StatusCode::Invalid);
    GemmBackward backward = full_backward();
    backward.attrs.leaky_slope = slope;
    CHECK(plan(backward).status().code() == StatusCode::Invalid);
  }
  GemmForward call = full_forward();
  call.attrs.leaky_slope = kNaN;
  check_refused(call, StatusCode::Invalid, "leaky_slope is nan, expected a finite number");
}

TEST_CASE("rule slope: C20 zero and negative slopes are ordinary") {
  for (const float slope : {0.0F, -0.0F, -2.0F}) {
    GemmForward forward = full_forward();
    forward.attrs.leaky_slope = slope;
    check_ok(forward);
    GemmBackward backward = full_backward();
    backward.attrs.leaky_slope = slope;
    check_ok(backward);
  }
}

TEST_CASE("rule slope: it has no meaning for another activation and is not looked at") {
  GemmForward call = full_forward();
  call.attrs.act = ActKind::ReLU;
  call.attrs.leaky_slope = kNaN;
  check_ok(call);
}

TEST_CASE("rule grad_mode: a value outside GradMode is refused for each gradient") {
  const auto check = [](const char* name, auto&& get) {
    GemmBackward call = full_backward();
    get(call).mode = static_cast<GradMode>(2);
    check_refused(call, StatusCode::Invalid,
                  std::string(name) + " has mode 2, expected GradMode::Overwrite or Accumulate");
    get(call).mode = GradMode::Accumulate;
    check_ok(call);
  };
  check("gA", [](GemmBackward& c) -> ai::Gradient& { return *c.gA; });
  check("gB", [](GemmBackward& c) -> ai::Gradient& { return *c.gB; });
  check("gC", [](GemmBackward& c) -> ai::Gradient& { return *c.gC; });
  check("gBias", [](GemmBackward& c) -> ai::Gradient& { return *c.gBias; });
}

TEST_CASE("rule required: a default-made operand counts as not given") {
  GemmForward forward = full_forward();
  forward.A = {};
  check_refused(forward, StatusCode::MissingInput, "A is not given, expected a matrix");
  forward = full_forward();
  forward.B = {};
  check_refused(forward, StatusCode::MissingInput, "B is not given, expected a matrix");
  forward = full_forward();
  forward.Y = {};
  check_refused(forward, StatusCode::MissingOutput, "Y is not given, expected a matrix");

  GemmBackward backward = full_backward();
  backward.A = {};
  check_refused(backward, StatusCode::MissingInput, "A is not given, expected a matrix");
  backward = full_backward();
  backward.B = {};
  check_refused(backward, StatusCode::MissingInput, "B is not given, expected a matrix");
  backward = full_backward();
  backward.gY = {};
  check_refused(backward, StatusCode::MissingInput, "gY is not given, expected a matrix");
}

TEST_CASE("rule with_bias: forward needs the bias it asks for") {
  GemmForward call = small_forward();
  call.attrs.with_bias = true;
  check_refused(call, StatusCode::MissingInput,
                "bias is not given, expected one because with_bias is set");
  call.bias = matrix(3, {1, kN});
  check_ok(call);
}

TEST_CASE("rule with_bias: a bias is applied without with_bias, and backward needs no gBias") {
  GemmForward forward = full_forward();
  CHECK_FALSE(forward.attrs.with_bias);
  const Result<GemmPlan> planned = plan(forward);
  REQUIRE(planned.ok());
  CHECK(planned->bias_kind() == ai::BiasKind::PerN);

  GemmBackward backward = small_backward();
  backward.attrs.with_bias = true;
  check_ok(backward);
}

TEST_CASE("rule save_z: forward needs the Z it asks for") {
  GemmForward call = small_forward();
  call.attrs.save_z = true;
  check_refused(call, StatusCode::MissingOutput,
                "Z is not given, expected one because save_z is set");
  call.Z = matrix(5, {kM, kN});
  check_ok(call);
}

TEST_CASE("rule save_z: backward without activation needs no Z, whatever save_z says") {
  GemmBackward call = small_backward();
  call.attrs.save_z = true;
  check_ok(call);
}

TEST_CASE("rule forward_c: beta other than 0 needs C") {
  GemmForward call = small_forward();
  call.attrs.beta = 0.5F;
  check_refused(call, StatusCode::MissingInput, "C is not given, expected one because beta is 0.5");
  call.attrs.beta = -0.0F;
  check_ok(call);
  call.attrs.beta = 0.5F;
  call.C = matrix(2, {kM, kN});
  check_ok(call);
}

TEST_CASE("rule forward_c: backward without gC needs no C, whatever beta is") {
  GemmBackward call = small_backward();
  call.attrs.beta = 0.5F;
  check_ok(call);
}

TEST_CASE("rule backward_c: gC needs a C") {
  GemmBackward call = full_backward();
  call.C.reset();
  check_refused(call, StatusCode::MissingInput,
                "C is not given, expected its description because gC is asked for");
  call.gC.reset();
  check_ok(call);
}

TEST_CASE("rule backward_z: every activation but None needs Z") {
  for (int value = 0; value <= static_cast<int>(ActKind::Tanh); ++value) {
    GemmBackward call = small_backward();
    call.attrs.act = static_cast<ActKind>(value);
    if (call.attrs.act == ActKind::None) {
      check_ok(call);
    } else {
      check_refused(
          call, StatusCode::MissingInput,
          std::string("Z is not given, expected the one saved by forward because act is ") +
              ai::to_string(call.attrs.act));
    }
  }
}

TEST_CASE("rule backward_z: forward needs no Z for any activation") {
  GemmForward call = small_forward();
  call.attrs.act = ActKind::GELU;
  check_ok(call);
}

TEST_CASE("rule any_gradient: backward without a gradient is refused, any single one will do") {
  GemmBackward call = full_backward();
  call.gA.reset();
  call.gB.reset();
  call.gC.reset();
  call.gBias.reset();
  check_refused(call, StatusCode::MissingOutput,
                "no gradient is given, expected gA, gB, gC or gBias");

  const GemmBackward full = full_backward();
  GemmBackward one = call;
  one.gA = full.gA;
  check_ok(one);
  one = call;
  one.gB = full.gB;
  check_ok(one);
  one = call;
  one.gC = full.gC;
  check_ok(one);
  one = call;
  one.gBias = full.gBias;
  check_ok(one);
}
