#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ai/activation.hpp"

/// Activations by the textbook, in long double, and how far a good f32 evaluation may stray from
/// them. Nothing here calls the library's formulas.
namespace oracle {

using Real = long double;

inline constexpr double kEps = 0x1p-24;         // half a unit in the last place of 1.0F
inline constexpr double kUnderflow = 0x1p-140;  // what gradual underflow of a factor can cost

[[nodiscard]] inline Real logistic(Real z) {
  return 1 / (1 + std::exp(-z));
}
/// logistic(z) * logistic(-z), without the cancellation of 1 - logistic(z).
[[nodiscard]] inline Real logistic_slope(Real z) {
  return 1 / (2 + 2 * std::cosh(z));
}
[[nodiscard]] inline Real normal_density(Real z) {
  return std::exp(-z * z / 2) / std::sqrt(2 * std::acos(Real(-1)));
}
[[nodiscard]] inline Real normal_distribution(Real z) {
  return std::erfc(-z / std::sqrt(Real(2))) / 2;
}
/// u of GELUTanh, z/2 (1 + tanh u), and its derivative.
[[nodiscard]] inline Real gelu_u(Real z) {
  return std::sqrt(2 / std::acos(Real(-1))) * (z + Real(0.044715L) * z * z * z);
}
[[nodiscard]] inline Real gelu_du(Real z) {
  return std::sqrt(2 / std::acos(Real(-1))) * (1 + 3 * Real(0.044715L) * z * z);
}

/// act(z); at infinite z the limit.
[[nodiscard]] inline double act(ai::ActKind kind, double argument, double slope) {
  const Real z = argument;
  const bool is_low = std::isinf(argument) && argument < 0;
  switch (kind) {
    case ai::ActKind::None: return argument;
    case ai::ActKind::ReLU: return std::isnan(argument) ? argument : std::max(argument, 0.0);
    case ai::ActKind::LeakyReLU:
      if (is_low && slope == 0) return 0;
      return argument > 0 ? argument : slope * argument;
    case ai::ActKind::ELU: return static_cast<double>(z > 0 ? z : std::expm1(z));
    case ai::ActKind::GELU: return is_low ? 0 : static_cast<double>(z * normal_distribution(z));
    case ai::ActKind::GELUTanh:
      return is_low ? 0 : static_cast<double>(z * logistic(2 * gelu_u(z)));
    case ai::ActKind::SiLU: return is_low ? 0 : static_cast<double>(z * logistic(z));
    case ai::ActKind::Sigmoid: return static_cast<double>(logistic(z));
    case ai::ActKind::Tanh: return static_cast<double>(std::tanh(z));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// act'(z); 0 of ReLU and `slope` of LeakyReLU at 0; at infinite z the limit.
[[nodiscard]] inline double act_slope(ai::ActKind kind, double argument, double slope) {
  if (std::isnan(argument)) return kind == ai::ActKind::None ? 1 : argument;
  const Real z = argument;
  const bool is_infinite = std::isinf(argument);
  const double step = argument > 0 ? 1 : 0;
  switch (kind) {
    case ai::ActKind::None: return 1;
    case ai::ActKind::ReLU: return step;
    case ai::ActKind::LeakyReLU: return argument > 0 ? 1 : slope;
    case ai::ActKind::ELU: return static_cast<double>(z > 0 ? 1 : std::exp(z));
    case ai::ActKind::GELU:
      if (is_infinite) return step;
      return static_cast<double>(normal_distribution(z) + z * normal_density(z));
    case ai::ActKind::GELUTanh: {
      // Beyond 1e4 the cubic's exponentials are 0 even in long double, and z^3 could overflow.
      if (std::abs(argument) > 1e4) return step;
      const Real v = 2 * gelu_u(z);
      return static_cast<double>(logistic(v) + z * logistic_slope(v) * 2 * gelu_du(z));
    }
    case ai::ActKind::SiLU:
      if (is_infinite) return step;
      return static_cast<double>(logistic(z) + z * logistic_slope(z));
    case ai::ActKind::Sigmoid: return static_cast<double>(logistic_slope(z));
    case ai::ActKind::Tanh: return static_cast<double>(4 * logistic_slope(2 * z));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Bound of |act'| on [z - radius, z + radius]: act' at z plus radius times the bound of |act''|,
/// and never more than the bound of |act'| anywhere. ReLU and LeakyReLU are looked at by pieces.
[[nodiscard]] inline double lipschitz(ai::ActKind kind, double z, double radius, double slope) {
  const double here = std::abs(act_slope(kind, z, slope));
  const auto bounded = [&](double everywhere, double second) {
    return std::min(everywhere, here + radius * second);
  };
  switch (kind) {
    case ai::ActKind::None: return 1;
    case ai::ActKind::ReLU: return z + radius <= 0 ? 0 : 1;
    case ai::ActKind::LeakyReLU:
      if (z - radius > 0) return 1;
      return z + radius <= 0 ? std::abs(slope) : std::max(1.0, std::abs(slope));
    case ai::ActKind::ELU: return bounded(1, 1);
    case ai::ActKind::GELU: return bounded(1.1290, 0.7979);      // |act''| <= 2 phi(0)
    case ai::ActKind::GELUTanh: return bounded(1.1291, 0.8000);  // a maximum at 0 as well
    case ai::ActKind::SiLU: return bounded(1.0999, 0.5001);
    case ai::ActKind::Sigmoid: return bounded(0.25, 0.0963);  // 1 / (6 sqrt(3))
    case ai::ActKind::Tanh: return bounded(1, 0.7699);        // 4 / (3 sqrt(3))
  }
  return std::numeric_limits<double>::infinity();
}

/// What an f32 evaluation of act(z) may be off, z being exact. In units of kEps: exp, expm1, erfc
/// and tanh of a good library are within 2 to 4 ulp (4 to 8 kEps), each operation after them adds
/// 1: 12 kEps |y|. The argument of erfc (2 roundings) and of GELUTanh's sigmoid (6) is rounded
/// before the function; that costs |argument| * |d act / d argument| each.
[[nodiscard]] inline double act_error(ai::ActKind kind, double z, double slope) {
  if (!std::isfinite(z)) return 0;
  const double y = std::abs(act(kind, z, slope));
  switch (kind) {
    case ai::ActKind::None:
    case ai::ActKind::ReLU: return 0;
    case ai::ActKind::LeakyReLU: return kEps * y + kUnderflow;
    case ai::ActKind::GELU:
      return kEps * (12 * y + 2 * z * z * static_cast<double>(normal_density(z))) + kUnderflow;
    case ai::ActKind::GELUTanh: {
      if (std::abs(z) > 1e4) return kEps * 12 * y;
      const Real v = 2 * gelu_u(z);
      return kEps * (12 * y + 6 * static_cast<double>(std::abs(z * v) * logistic_slope(v))) +
             kUnderflow;
    }
    default: return kEps * 12 * y + kUnderflow;
  }
}

/// The same for act'(z), z being exact: 24 kEps of each term by itself (they may cancel), and what
/// the rounded arguments of exp(-z^2/2) (2), erfc (2) and sigmoid (6) cost.
[[nodiscard]] inline double act_slope_error(ai::ActKind kind, double z, double slope) {
  if (!std::isfinite(z)) return 0;
  const double d = std::abs(act_slope(kind, z, slope));
  const double size = std::abs(z);
  switch (kind) {
    case ai::ActKind::None:
    case ai::ActKind::ReLU:
    case ai::ActKind::LeakyReLU: return 0;
    case ai::ActKind::GELU: {
      const auto density = static_cast<double>(normal_density(z));
      const auto distribution = static_cast<double>(normal_distribution(z));
      return kEps *
                 (24 * (distribution + size * density) + 2 * size * density * (1 + size * size)) +
             kUnderflow;
    }
    case ai::ActKind::GELUTanh: {
      if (size > 1e4) return 0;
      const auto v = static_cast<double>(2 * gelu_u(z));
      const auto low = static_cast<double>(logistic(v));
      const auto bell = static_cast<double>(logistic_slope(v));
      const double term = size * static_cast<double>(2 * gelu_du(z)) * bell;
      return kEps * (24 * (low + term) + 6 * std::abs(v) * (bell + term)) + kUnderflow;
    }
    case ai::ActKind::SiLU: {
      const auto low = static_cast<double>(logistic(z));
      const auto bell = static_cast<double>(logistic_slope(z));
      return kEps * 24 * (low + size * bell) + kUnderflow;
    }
    default: return kEps * 24 * d + kUnderflow;
  }
}

}  // namespace oracle
