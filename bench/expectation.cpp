#include "expectation.hpp"

#include <cmath>

#include "parallel.hpp"
#include "support/oracle.hpp"

namespace bench {
namespace {

using oracle::Expected;
using oracle::Factor;
using oracle::kEps;

std::size_t index(int l) {
  return static_cast<std::size_t>(l);
}

ai::GemmAttrs attrs_of(ai::ActKind act) {
  ai::GemmAttrs attrs;
  attrs.act = act;
  return attrs;
}
double leaky_slope() {
  return static_cast<double>(ai::GemmAttrs{}.leaky_slope);
}

/// Bound of |act''|.
double curvature(ai::ActKind act) {
  switch (act) {
    case ai::ActKind::ELU: return 1;
    case ai::ActKind::GELU: return 0.7979;
    case ai::ActKind::GELUTanh: return 0.8;
    case ai::ActKind::SiLU: return 0.5001;
    case ai::ActKind::Sigmoid: return 0.0963;
    case ai::ActKind::Tanh: return 0.7699;
    default: return 0;
  }
}

/// Bound of |d act' / d y| where a contestant may compute act' from y alone: 1 - y^2 of Tanh,
/// y (1 - y) of Sigmoid, y + 1 of ELU.
double steepness_in_y(ai::ActKind act) {
  if (act == ai::ActKind::Tanh) return 2;
  return act == ai::ActKind::Sigmoid || act == ai::ActKind::ELU ? 1 : 0;
}

Expected times(const Expected& sum, const Factor& factor) {
  const double size = std::abs(factor.value);
  Expected product = sum;
  product.value *= factor.value;
  product.terms *= size;
  product.extra = sum.extra * size + (std::abs(sum.value) + sum.tolerance()) * factor.extra;
  return product;
}

}  // namespace

Expectation::Expectation(const HostNetwork& before, const HostNetwork& after,
                         double activation_error)
    : before_(before), after_(after), activation_error_(activation_error) {
  for (const HostNetwork::Layer& layer : after.layers) has_z_.push_back(layer.z.is_written());
}

Expected Expectation::z(int l, std::int64_t m, std::int64_t n) const {
  const HostMatrix& a = after_.input_of(l);
  const HostMatrix& w = before_.layers[index(l)].w;
  Expected sum;
  for (std::int64_t k = 0; k < w.rows; ++k) sum.add(a.at(m, k) * w.at(k, n));
  sum.add(before_.layers[index(l)].b.at(0, n));
  sum.length = w.rows;
  return sum;
}

Expected Expectation::y(int l, std::int64_t m, std::int64_t n) const {
  const ai::ActKind act = after_.row.activation_of(l);
  Expected expected = oracle::through(attrs_of(act), z(l, m, n));
  if (act != ai::ActKind::None) expected.extra += activation_error_;
  return expected;
}

Expected Expectation::gy(int l, std::int64_t m, std::int64_t n) const {
  Expected sum;
  if (l + 1 == after_.row.depth()) {
    if (after_.row.mode == Mode::ForwardBackward) {
      sum.add(after_.layers.back().gy.at(m, n));
      return sum;
    }
    const HostMatrix& y = after_.layers.back().y;
    const double scale = 2.0 / static_cast<double>(y.count());
    sum.add(scale * y.at(m, n));
    sum.add(-scale * after_.target.at(m, n));
    return sum;
  }
  const HostMatrix& w = before_.layers[index(l) + 1].w;
  for (std::int64_t i = 0; i < w.cols; ++i) {
    const Factor& gz = taken(m, i);
    sum.add(gz.value * w.at(n, i));
    sum.extra += gz.extra * std::abs(w.at(n, i));
  }
  return sum;
}

Expected Expectation::gz(int l, std::int64_t m, std::int64_t n, bool from_own_gy) const {
  Expected incoming;
  if (from_own_gy) {
    incoming.add(after_.layers[index(l)].gy.at(m, n));
  } else {
    incoming = gy(l, m, n);
  }
  return times(incoming, slope(l, m, n));
}

Factor Expectation::slope(int l, std::int64_t m, std::int64_t n) const {
  const ai::ActKind act = after_.row.activation_of(l);
  const HostNetwork::Layer& layer = after_.layers[index(l)];
  if (act == ai::ActKind::None) return {1, 0};
  if (has_z(l)) {
    const double own = layer.z.at(m, n);
    return {oracle::act_slope(act, own, leaky_slope()),
            oracle::act_slope_error(act, own, leaky_slope()) + activation_error_};
  }
  if (act == ai::ActKind::ReLU || act == ai::ActKind::LeakyReLU) {
    return {oracle::act_slope(act, layer.y.at(m, n), leaky_slope()), 0};
  }
  const Expected exact = z(l, m, n);
  double extra = oracle::act_slope_error(act, exact.value, leaky_slope()) + activation_error_;
  extra += exact.tolerance() * curvature(act);
  if (const double steepness = steepness_in_y(act); steepness > 0) {
    extra += steepness * oracle::through(attrs_of(act), exact).tolerance() + 2 * kEps;
  }
  return {oracle::act_slope(act, exact.value, leaky_slope()), extra};
}

void Expectation::take_gz(int l, bool is_own) {
  const HostNetwork::Layer& layer = after_.layers[index(l)];
  std::vector<Factor> taken_now(layer.gz.count());
  gz_cols_ = layer.gz.cols;
  in_parallel(static_cast<std::int64_t>(taken_now.size()),
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t m = i / layer.gz.cols;
                  const std::int64_t n = i % layer.gz.cols;
                  Factor& factor = taken_now[static_cast<std::size_t>(i)];
                  if (is_own) {
                    factor.value = layer.gz.at(m, n);
                  } else {
                    factor = slope(l, m, n);
                    const double gy = layer.gy.at(m, n);
                    factor = {gy * factor.value, std::abs(gy) * factor.extra};
                  }
                }
              });
  gz_ = std::move(taken_now);
}

Expected Expectation::gw(int l, std::int64_t k, std::int64_t n) const {
  const HostMatrix& a = after_.input_of(l);
  Expected sum;
  for (std::int64_t m = 0; m < a.rows; ++m) {
    const Factor& gz = taken(m, n);
    sum.add(a.at(m, k) * gz.value);
    sum.extra += std::abs(a.at(m, k)) * gz.extra;
  }
  return sum;
}

Expected Expectation::gb(std::int64_t n) const {
  Expected sum;
  for (std::int64_t m = 0; m < after_.row.batch; ++m) {
    sum.add(taken(m, n).value);
    sum.extra += taken(m, n).extra;
  }
  return sum;
}

Expected Expectation::updated(double old, double gradient) {
  Expected out;
  const double step = static_cast<double>(kLearningRate) * gradient;
  out.value = old - step;
  out.extra = kEps * (4 * std::abs(out.value) + 8 * std::abs(step));
  return out;
}

}  // namespace bench
