#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "activation_oracle.hpp"
#include "ai/gemm.hpp"
#include "oracle_product.hpp"

/// Forward and backward in f64 over host memory, written from the formulas alone. Tensors are those
/// of an ai::GemmForward or ai::GemmBackward whose data lies in host memory; sizes and kinds are
/// read from their shapes, not from a plan. Outputs are not touched; old gradients (Accumulate) are
/// read, so ask before the run.
namespace oracle {

struct Forward {
  Table z;
  Table y;
};
struct Backward {
  Table ga;
  Table gb;
  Table gc;
  Table gbias;
};

[[nodiscard]] inline double element(const ai::Tensor& tensor, std::int64_t row, std::int64_t col) {
  const std::int64_t at = row * tensor.desc.stride[0] + col * tensor.desc.stride[1];
  return static_cast<double>(static_cast<const float*>(tensor.data)[at]);
}
[[nodiscard]] inline double element(const ai::Tensor& tensor, std::int64_t row, std::int64_t col,
                                    bool transposed) {
  return transposed ? element(tensor, col, row) : element(tensor, row, col);
}

/// Which element of a bias vector belongs to (row, col) of the [m,n] matrix.
[[nodiscard]] inline std::int64_t bias_index(const ai::Tensor& bias, std::int64_t m, std::int64_t n,
                                             std::int64_t row, std::int64_t col) {
  const ai::Extents& shape = bias.desc.shape;
  if (shape.rank() == 1) return shape[0] == 1 ? 0 : shape[0] == n ? col : row;
  if (shape[0] == 1 && shape[1] == 1) return 0;
  if (shape[0] == 1 && shape[1] == n) return col;
  (void)m;
  return row;
}
[[nodiscard]] inline std::int64_t bias_count(const ai::Tensor& bias) {
  const ai::Extents& shape = bias.desc.shape;
  return shape.rank() == 1 ? shape[0] : shape[0] * shape[1];
}
[[nodiscard]] inline double bias_element(const ai::Tensor& bias, std::int64_t i) {
  const ai::Extents& shape = bias.desc.shape;
  const int axis = shape.rank() == 2 && shape[0] == 1 ? 1 : 0;
  return static_cast<double>(static_cast<const float*>(bias.data)[i * bias.desc.stride[axis]]);
}

struct Sizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
[[nodiscard]] inline Sizes sizes_of(const ai::Tensor& a, const ai::Tensor& b,
                                    const ai::GemmAttrs& attrs) {
  return {a.desc.shape[attrs.trans_a ? 1 : 0], b.desc.shape[attrs.trans_b ? 0 : 1],
          a.desc.shape[attrs.trans_a ? 0 : 1]};
}

/// act of a sum: its tolerance goes through act by act's Lipschitz constant on that interval.
[[nodiscard]] inline Expected through(const ai::GemmAttrs& attrs, const Expected& z) {
  const auto slope = static_cast<double>(attrs.leaky_slope);
  if (attrs.act == ai::ActKind::None) return z;
  Expected y;
  y.value = act(attrs.act, z.value, slope);
  if (!std::isfinite(z.value)) return y;
  const double radius = z.tolerance();
  y.extra =
      lipschitz(attrs.act, z.value, radius, slope) * radius + act_error(attrs.act, z.value, slope);
  return y;
}

[[nodiscard]] inline Forward forward(const ai::GemmForward& call) {
  const ai::GemmAttrs& attrs = call.attrs;
  const Sizes size = sizes_of(call.A, call.B, attrs);
  const auto alpha = static_cast<double>(attrs.alpha);
  const auto beta = static_cast<double>(attrs.beta);
  const Table sums = sums_of_products(
      size.m, size.n, alpha != 0 ? size.k : 0,
      [&](std::int64_t m, std::int64_t k) {
        return Factor{element(call.A, m, k, attrs.trans_a), 0};
      },
      [&](std::int64_t k, std::int64_t n) {
        return Factor{element(call.B, k, n, attrs.trans_b), 0};
      });
  Forward out;
  out.z.reserve(sums.size());
  out.y.reserve(sums.size());
  for (std::int64_t m = 0; m < size.m; ++m) {
    for (std::int64_t n = 0; n < size.n; ++n) {
      const Expected& sum = sums[static_cast<std::size_t>(m * size.n + n)];
      Expected z = sum;
      z.value *= alpha;
      z.terms *= std::abs(alpha);
      if (call.C && beta != 0) z.add(beta * element(*call.C, m, n));
      if (call.bias) z.add(bias_element(*call.bias, bias_index(*call.bias, size.m, size.n, m, n)));
      z.length = sum.length;
      out.z.push_back(z);
      out.y.push_back(through(attrs, z));
    }
  }
  return out;
}

/// gZ by element: value, and in `extra` what an f32 act' may be off.
[[nodiscard]] inline Table grad_z(const ai::GemmBackward& call, const Sizes& size) {
  const ai::GemmAttrs& attrs = call.attrs;
  const auto slope = static_cast<double>(attrs.leaky_slope);
  Table out;
  for (std::int64_t m = 0; m < size.m; ++m) {
    for (std::int64_t n = 0; n < size.n; ++n) {
      const double gy = element(call.gY, m, n);
      Expected gz{gy, std::abs(gy), 1, 0};
      if (attrs.act != ai::ActKind::None) {
        const double z = element(*call.Z, m, n);
        gz.value = gy * act_slope(attrs.act, z, slope);
        gz.terms = std::abs(gz.value);
        gz.extra = std::abs(gy) * act_slope_error(attrs.act, z, slope);
      }
      out.push_back(gz);
    }
  }
  return out;
}

/// `sum` scaled, plus the old gradient where it accumulates.
[[nodiscard]] inline Expected finish(Expected sum, double scale, const ai::Gradient& gradient,
                                     double old) {
  const std::int64_t length = sum.length;
  sum.value *= scale;
  sum.terms *= std::abs(scale);
  sum.extra *= std::abs(scale);
  if (gradient.mode == ai::GradMode::Accumulate) sum.add(old);
  sum.length = length;
  return sum;
}

[[nodiscard]] inline Backward backward(const ai::GemmBackward& call) {
  const ai::GemmAttrs& attrs = call.attrs;
  const Sizes size = sizes_of(call.A, call.B, attrs);
  const auto alpha = static_cast<double>(attrs.alpha);
  const auto beta = static_cast<double>(attrs.beta);
  const Table gz = grad_z(call, size);
  const auto gz_at = [&](std::int64_t m, std::int64_t n) -> const Expected& {
    return gz[static_cast<std::size_t>(m * size.n + n)];
  };
  const auto factor = [&](std::int64_t m, std::int64_t n) {
    return Factor{gz_at(m, n).value, gz_at(m, n).extra};
  };
  const auto a_at = [&](std::int64_t m, std::int64_t k) {
    return Factor{element(call.A, m, k, attrs.trans_a), 0};
  };
  const auto b_at = [&](std::int64_t k, std::int64_t n) {
    return Factor{element(call.B, k, n, attrs.trans_b), 0};
  };
  // `sums` is a packed matrix of `cols` columns; the gradient is stored like it or transposed.
  const auto stored = [&](const Table& sums, std::int64_t cols, bool transposed,
                          const ai::Gradient& gradient) {
    const ai::Extents& shape = gradient.tensor.desc.shape;
    const bool adds = gradient.mode == ai::GradMode::Accumulate;
    Table out;
    out.reserve(sums.size());
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        const std::int64_t at = transposed ? c * cols + r : r * cols + c;
        out.push_back(finish(sums[static_cast<std::size_t>(at)], alpha, gradient,
                             adds ? element(gradient.tensor, r, c) : 0));
      }
    }
    return out;
  };
  Backward out;
  if (call.gA) {
    const Table sums = sums_of_products(size.m, size.k, alpha != 0 ? size.n : 0, factor,
                                        [&](std::int64_t n, std::int64_t k) { return b_at(k, n); });
    out.ga = stored(sums, size.k, attrs.trans_a, *call.gA);
  }
  if (call.gB) {
    const Table sums = sums_of_products(
        size.k, size.n, alpha != 0 ? size.m : 0,
        [&](std::int64_t k, std::int64_t m) { return a_at(m, k); }, factor);
    out.gb = stored(sums, size.n, attrs.trans_b, *call.gB);
  }
  if (call.gC) {
    for (std::int64_t m = 0; m < size.m; ++m) {
      for (std::int64_t n = 0; n < size.n; ++n) {
        Expected sum;
        if (beta != 0) sum = gz_at(m, n);
        const bool adds = call.gC->mode == ai::GradMode::Accumulate;
        out.gc.push_back(finish(sum, beta, *call.gC, adds ? element(call.gC->tensor, m, n) : 0));
      }
    }
  }
  if (call.gBias) {
    const ai::Tensor& gbias = call.gBias->tensor;
    out.gbias.resize(static_cast<std::size_t>(bias_count(gbias)));
    for (std::int64_t m = 0; m < size.m; ++m) {
      for (std::int64_t n = 0; n < size.n; ++n) {
        const std::int64_t i = bias_index(gbias, size.m, size.n, m, n);
        Expected& sum = out.gbias[static_cast<std::size_t>(i)];
        sum.add(gz_at(m, n).value);
        sum.extra += gz_at(m, n).extra;
      }
    }
    for (std::size_t i = 0; i < out.gbias.size(); ++i) {
      const bool adds = call.gBias->mode == ai::GradMode::Accumulate;
      const double old = adds ? bias_element(gbias, static_cast<std::int64_t>(i)) : 0;
      out.gbias[i] = finish(out.gbias[i], 1, *call.gBias, old);
    }
  }
  return out;
}

}  // namespace oracle
