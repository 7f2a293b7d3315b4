#pragma once

#include <cmath>

#if defined(__CUDACC__)
#define AI_HOST_DEVICE __host__ __device__
#else
#define AI_HOST_DEVICE
#endif

namespace ai {

/// Elementwise functions. `GELU` is z * Phi(z) by erf, `GELUTanh` its tanh approximation
/// (Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2); ELU has alpha = 1 (Clevert et al. 2015,
/// arXiv:1511.07289).
///
/// Edge values, the same on every path (f(z) | f'(z)):
///   z          -Inf        -0        0         +Inf      NaN
///   None       -Inf | 1    -0 | 1    0 | 1     Inf | 1   NaN | 1
///   ReLU        0   | 0    -0 | 0    0 | 0     Inf | 1   NaN | NaN
///   LeakyReLU  -Inf*s | s  -0*s | s  0*s | s   Inf | 1   NaN | NaN     (s = 0: 0 at -Inf)
///   ELU        -1   | 0    -0 | 1    0 | 1     Inf | 1   NaN | NaN
///   GELU*      -0   | 0    -0 | .5   0 | .5    Inf | 1   NaN | NaN     (both forms)
///   SiLU       -0   | 0    -0 | .5   0 | .5    Inf | 1   NaN | NaN
///   Sigmoid     0   | 0    .5 | .25  .5 | .25  1   | 0   NaN | NaN
///   Tanh       -1   | 0    -0 | 1    0 | 1     1   | 0   NaN | NaN
/// No finite z gives Inf or NaN (LeakyReLU: unless slope * z itself overflows).
enum class ActKind { None, ReLU, LeakyReLU, ELU, GELU, GELUTanh, SiLU, Sigmoid, Tanh };
[[nodiscard]] const char* to_string(ActKind kind) noexcept;

namespace activation {

/// 1 / (1 + exp(-z)), exp never of a positive number: no overflow, full relative accuracy.
template <typename T>
AI_HOST_DEVICE inline T sigmoid(T z) {
  const T e = std::exp(-std::fabs(z));
  return (z >= T(0) ? T(1) : e) / (T(1) + e);
}

template <typename T>
AI_HOST_DEVICE inline bool is_minus_inf(T z) {
  return std::isinf(z) && z < T(0);
}

/// The argument of GELUTanh's sigmoid: 1/2 (1 + tanh(u)) = sigmoid(2u), u = sqrt(2/pi) (z +
/// 0.044715 z^3).
template <typename T>
AI_HOST_DEVICE inline T gelu_tanh_2u(T z) {
  return T(1.5957691216057307117) * z * (T(1) + T(0.044715) * z * z);
}

/// act(z). `slope` is LeakyReLU's.
template <ActKind kAct, typename T>
AI_HOST_DEVICE inline T apply(T z, T slope) {
  if constexpr (kAct == ActKind::None) {
    return z;
  } else if constexpr (kAct == ActKind::ReLU) {
    return z < T(0) ? T(0) : z;
  } else if constexpr (kAct == ActKind::LeakyReLU) {
    if (z > T(0)) return z;
    return slope == T(0) && is_minus_inf(z) ? T(0) : slope * z;
  } else if constexpr (kAct == ActKind::ELU) {
    return z > T(0) ? z : std::expm1(z);
  } else if constexpr (kAct == ActKind::GELU) {
    // erfc keeps the left tail's relative accuracy, where 1 + erf cancels.
    return is_minus_inf(z) ? -T(0) : T(0.5) * z * std::erfc(-z * T(0.70710678118654752440));
  } else if constexpr (kAct == ActKind::GELUTanh) {
    return is_minus_inf(z) ? -T(0) : z * sigmoid(gelu_tanh_2u(z));
  } else if constexpr (kAct == ActKind::SiLU) {
    return is_minus_inf(z) ? -T(0) : z * sigmoid(z);
  } else if constexpr (kAct == ActKind::Sigmoid) {
    return sigmoid(z);
  } else {
    return std::tanh(z);
  }
}

/// d act(z) / dz.
template <ActKind kAct, typename T>
AI_HOST_DEVICE inline T derivative(T z, T slope) {
  if constexpr (kAct == ActKind::None) {
    return T(1);
  } else if constexpr (kAct == ActKind::ReLU) {
    return z > T(0) ? T(1) : (z <= T(0) ? T(0) : z);
  } else if constexpr (kAct == ActKind::LeakyReLU) {
    return z > T(0) ? T(1) : (z <= T(0) ? slope : z);
  } else if constexpr (kAct == ActKind::ELU) {
    return z > T(0) ? T(1) : std::exp(z);
  } else if constexpr (kAct == ActKind::GELU) {
    // Phi(z) + z phi(z); phi underflows to 0 long before |z| = 40, where z * phi could be Inf * 0.
    if (std::fabs(z) > T(40)) return z > T(0) ? T(1) : T(0);
    return T(0.5) * std::erfc(-z * T(0.70710678118654752440)) +
           z * T(0.39894228040143267794) * std::exp(T(-0.5) * z * z);
  } else if constexpr (kAct == ActKind::GELUTanh) {
    if (std::fabs(z) > T(40)) return z > T(0) ? T(1) : T(0);
    const T v = gelu_tanh_2u(z);
    const T dv = T(1.5957691216057307117) * (T(1) + T(3 * 0.044715) * z * z);
    return sigmoid(v) * (T(1) + z * dv * sigmoid(-v));
  } else if constexpr (kAct == ActKind::SiLU) {
    if (std::isinf(z)) return z > T(0) ? T(1) : T(0);
    return sigmoid(z) * (T(1) + z * sigmoid(-z));
  } else if constexpr (kAct == ActKind::Sigmoid) {
    return sigmoid(z) * sigmoid(-z);
  } else {
    const T e =
        std::exp(T(-2) * std::fabs(z));  // 1 - tanh^2 = 4e / (1 + e)^2, without cancellation
    return T(4) * e / ((T(1) + e) * (T(1) + e));
  }
}

/// Calls f.template operator()<kind>() for the run-time `kind`.
template <typename F>
auto dispatch(ActKind kind, F&& f) {
  switch (kind) {
    case ActKind::ReLU: return f.template operator()<ActKind::ReLU>();
    case ActKind::LeakyReLU: return f.template operator()<ActKind::LeakyReLU>();
    case ActKind::ELU: return f.template operator()<ActKind::ELU>();
    case ActKind::GELU: return f.template operator()<ActKind::GELU>();
    case ActKind::GELUTanh: return f.template operator()<ActKind::GELUTanh>();
    case ActKind::SiLU: return f.template operator()<ActKind::SiLU>();
    case ActKind::Sigmoid: return f.template operator()<ActKind::Sigmoid>();
    case ActKind::Tanh: return f.template operator()<ActKind::Tanh>();
    case ActKind::None: break;
  }
  return f.template operator()<ActKind::None>();
}

}  // namespace activation
}  // namespace ai
