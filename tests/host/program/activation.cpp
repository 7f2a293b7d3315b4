#include "ai/activation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/activation_oracle.hpp"
#include "support/cases.hpp"

namespace {

using ai::ActKind;
using support::kActs;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
T apply(ActKind kind, T z, T slope = T(0.01)) {
  return ai::activation::dispatch(
      kind, [&]<ActKind kAct>() { return ai::activation::apply<kAct>(z, slope); });
}
template <typename T>
T derivative(ActKind kind, T z, T slope = T(0.01)) {
  return ai::activation::dispatch(
      kind, [&]<ActKind kAct>() { return ai::activation::derivative<kAct>(z, slope); });
}

/// Equal, NaN being equal to NaN, and with the same sign of zero.
bool is_identical(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

TEST_CASE("activations have the documented values and derivatives at 0, -0, infinities and NaN") {
  struct Row {
    ActKind kind;
    float value[5];  // at -Inf, -0, 0, Inf, NaN
    float slope[5];
  };
  constexpr float kS = 0.01F;
  const Row rows[] = {
      {ActKind::None, {-kInf, -0.0F, 0, kInf, kNaN}, {1, 1, 1, 1, 1}},
      {ActKind::ReLU, {0, -0.0F, 0, kInf, kNaN}, {0, 0, 0, 1, kNaN}},
      {ActKind::LeakyReLU, {-kInf, -0.0F, 0, kInf, kNaN}, {kS, kS, kS, 1, kNaN}},
      {ActKind::ELU, {-1, -0.0F, 0, kInf, kNaN}, {0, 1, 1, 1, kNaN}},
      {ActKind::GELU, {-0.0F, -0.0F, 0, kInf, kNaN}, {0, 0.5F, 0.5F, 1, kNaN}},
      {ActKind::GELUTanh, {-0.0F, -0.0F, 0, kInf, kNaN}, {0, 0.5F, 0.5F, 1, kNaN}},
      {ActKind::SiLU, {-0.0F, -0.0F, 0, kInf, kNaN}, {0, 0.5F, 0.5F, 1, kNaN}},
      {ActKind::Sigmoid, {0, 0.5F, 0.5F, 1, kNaN}, {0, 0.25F, 0.25F, 0, kNaN}},
      {ActKind::Tanh, {-1, -0.0F, 0, 1, kNaN}, {0, 1, 1, 0, kNaN}},
  };
  const float arguments[] = {-kInf, -0.0F, 0.0F, kInf, kNaN};
  for (const Row& row : rows) {
    for (int i = 0; i < 5; ++i) {
      CAPTURE(ai::to_string(row.kind));
      CAPTURE(arguments[i]);
      const auto z = static_cast<double>(arguments[i]);
      CHECK(is_identical(apply(row.kind, arguments[i]), row.value[i]));
      CHECK(is_identical(static_cast<float>(apply(row.kind, z)), row.value[i]));
      // The sign of a derivative that is zero means nothing.
      CHECK(is_identical(std::abs(derivative(row.kind, arguments[i])), row.slope[i]));
      CHECK(is_identical(static_cast<float>(std::abs(derivative(row.kind, z))), row.slope[i]));
    }
  }
  CHECK(apply(ActKind::LeakyReLU, -kInf, 0.0F) == 0.0F);
  CHECK(derivative(ActKind::LeakyReLU, -kInf, 0.0F) == 0.0F);
}

TEST_CASE(
    "activations agree with the textbook over the whole range, in f32 and f64, without overflow") {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const ActKind kind : kActs) {
    const auto check = [&](float z) {
      CAPTURE(ai::to_string(kind));
      CAPTURE(z);
      const auto wide = static_cast<double>(z);
      const double value = oracle::act(kind, wide, 0.01F);
      const double slope = oracle::act_slope(kind, wide, 0.01F);
      // 1e-12: the f64 formula; one f32 rounding is below half a unit, kEps |value|.
      const double value_error =
          oracle::act_error(kind, wide, 0.01F) + oracle::kEps * std::abs(value);
      const double slope_error = oracle::act_slope_error(kind, wide, 0.01F);
      REQUIRE(std::abs(apply(kind, z, 0.01F) - value) <= value_error + oracle::kUnderflow);
      REQUIRE(std::abs(derivative(kind, z, 0.01F) - slope) <=
              slope_error + oracle::kEps * std::abs(slope) + oracle::kUnderflow);
      REQUIRE(std::abs(apply<double>(kind, wide, 0.01F) - value) <=
              1e-12 * std::abs(value) + 1e-7 * value_error);
      REQUIRE(std::abs(derivative<double>(kind, wide, 0.01F) - slope) <=
              1e-12 * std::abs(slope) + 1e-7 * slope_error);
    };
    for (int i = -2000; i <= 2000; ++i) check(static_cast<float>(i) * 0.0107F);
    for (float z = 1e-38F; z < kMax / 2; z *= 1.7F) {
      check(z);
      check(-z);
    }
    check(kMax);
    check(-kMax);
  }
}

TEST_CASE("the oracle's derivatives are the slopes of its values, and its Lipschitz bounds hold") {
  for (const ActKind kind : kActs) {
    for (int i = -800; i <= 800; ++i) {
      const double z = i * 0.0123 + 0.001;  // beside the kink at 0
      const double step = 1e-5;
      CAPTURE(ai::to_string(kind));
      CAPTURE(z);
      const double difference =
          (oracle::act(kind, z + step, -1.5) - oracle::act(kind, z - step, -1.5)) / (2 * step);
      CHECK(std::abs(difference - oracle::act_slope(kind, z, -1.5)) < 1e-9);
      for (const double radius : {1e-6, 0.01, 0.5, 3.0}) {
        const double bound = oracle::lipschitz(kind, z, radius, -1.5) + 1e-9;
        for (int j = -8; j <= 8; ++j) {
          REQUIRE(std::abs(oracle::act_slope(kind, z + radius * j / 8, -1.5)) <= bound);
        }
      }
    }
  }
}

TEST_CASE("C19 erf and tanh forms of GELU differ as they should, their derivatives with them") {
  const auto near = [](double a, double b) { return std::abs(a - b) < 2e-6; };
  CHECK(near(apply(ActKind::GELU, 2.0F), 1.9544997));
  CHECK(near(apply(ActKind::GELUTanh, 2.0F), 1.9545977));
  CHECK(near(apply(ActKind::GELU, -3.0F), -0.0040497));
  CHECK(near(apply(ActKind::GELUTanh, -3.0F), -0.0036374));
  CHECK(near(derivative(ActKind::GELU, 2.0F), 1.0852318));
  CHECK(near(derivative(ActKind::GELUTanh, 2.0F), 1.0860993));
  double widest = 0;
  double where = 0;
  for (double z = 0; z < 6; z += 0.001) {
    const double gap = std::abs(apply(ActKind::GELU, z) - apply(ActKind::GELUTanh, z));
    if (gap > widest) where = z;
    widest = std::max(widest, gap);
  }
  CHECK(widest == doctest::Approx(4.73e-4).epsilon(0.01));
  CHECK(where == doctest::Approx(2.70).epsilon(0.01));
}

TEST_CASE("C20 LeakyReLU takes slopes of 0 and below, forward and backward") {
  CHECK(apply(ActKind::LeakyReLU, -1.0F, -2.0F) == 2.0F);
  CHECK(apply(ActKind::LeakyReLU, 1.0F, -2.0F) == 1.0F);
  CHECK(derivative(ActKind::LeakyReLU, -1.0F, -2.0F) == -2.0F);
  CHECK(derivative(ActKind::LeakyReLU, 1.0F, -2.0F) == 1.0F);
  for (int z = -5; z <= 4; ++z) {
    const auto argument = static_cast<float>(z);
    CHECK(derivative(ActKind::LeakyReLU, argument, 0.0F) == (z > 0 ? 1.0F : 0.0F));
    CHECK(derivative(ActKind::LeakyReLU, argument, 0.0F) == derivative(ActKind::ReLU, argument));
  }
}

TEST_CASE("C22 subnormal numbers pass through activations") {
  const float tiny = 5.8774718e-39F;
  CHECK(apply(ActKind::None, tiny) == tiny);
  CHECK(apply(ActKind::ReLU, tiny) == tiny);
  CHECK(apply(ActKind::ReLU, -tiny) == 0.0F);
  CHECK(apply(ActKind::ELU, -tiny) == -tiny);
  CHECK(apply(ActKind::Tanh, tiny) == tiny);
  CHECK(apply(ActKind::GELU, tiny) == tiny / 2);
}

}  // namespace
