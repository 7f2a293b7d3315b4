#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "chain_network.hpp"
#include "support/compare.hpp"
#include "support/oracle.hpp"

/// A network held against the oracle layer by layer, also where nobody sees what is in between.
namespace gpu {

/// The input of a layer, packed: each value, and what it may be off.
using ChainInput = std::vector<oracle::Factor>;

/// What a layer gives. Errors of its input that have not been seen are independent of one another,
/// so what they do to a sum grows like a random walk: by the root of the sum of their squares. It
/// is a part of the tolerance.
[[nodiscard]] inline oracle::Forward expected_layer(const ai::GemmForward& call,
                                                    const ChainInput& input) {
  const oracle::Sizes size = oracle::sizes_of(call.A, call.B, call.attrs);
  const auto value = [&](std::int64_t m, std::int64_t k) {
    return oracle::Factor{input[static_cast<std::size_t>(m * size.k + k)].value, 0};
  };
  const auto square = [&](std::int64_t m, std::int64_t k) {
    const double extra = input[static_cast<std::size_t>(m * size.k + k)].extra;
    return oracle::Factor{extra * extra, 0};
  };
  const auto weight = [&](std::int64_t k, std::int64_t n) {
    return oracle::element(call.B, k, n, call.attrs.trans_b);
  };
  const oracle::Table sums =
      oracle::sums_of_products(size.m, size.n, size.k, value, [&](std::int64_t k, std::int64_t n) {
        return oracle::Factor{weight(k, n), 0};
      });
  oracle::Table squares;
  if (std::any_of(input.begin(), input.end(), [](const auto& factor) { return factor.extra != 0; }))
    squares = oracle::sums_of_products(size.m, size.n, size.k, square,
                                       [&](std::int64_t k, std::int64_t n) {
                                         return oracle::Factor{weight(k, n) * weight(k, n), 0};
                                       });
  const auto alpha = static_cast<double>(call.attrs.alpha);
  oracle::Forward out;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    oracle::Expected z = sums[i];
    z.value *= alpha;
    z.terms *= std::abs(alpha);
    if (call.bias) {
      z.add(oracle::bias_element(
          *call.bias, oracle::bias_index(*call.bias, size.m, size.n, at / size.n, at % size.n)));
      z.length = sums[i].length;
    }
    if (!squares.empty()) z.extra = std::abs(alpha) * std::sqrt(squares[i].value);
    out.z.push_back(z);
    out.y.push_back(oracle::through(call.attrs, z));
  }
  return out;
}

/// What checking a network came to.
struct ChainVerdict {
  std::string faults;         ///< empty: none
  double worst = 0;           ///< largest error, as a part of what is allowed
  std::size_t elements = 0;   ///< compared
  std::size_t nonfinite = 0;  ///< of the last Y
};

namespace detail {

inline void compare(const std::string& name, const oracle::Table& expected,
                    const support::Buffer& given, ChainVerdict& verdict) {
  const std::string wrong = support::difference(name.c_str(), expected, given);
  if (!wrong.empty()) verdict.faults += wrong + "; ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto value = static_cast<double>(given.at(at / given.cols(), at % given.cols()));
    const double tolerance = expected[i].tolerance();
    const double error = std::abs(value - expected[i].value);
    if (std::isfinite(error) && tolerance > 0)
      verdict.worst = std::max(verdict.worst, error / tolerance);
  }
  verdict.elements += expected.size();
}

/// What the next layer reads: Y where it was written, else act(Z) where Z was, else what the oracle
/// says that it is.
inline ChainInput next_input(const ChainNetwork& network, std::size_t l, const ai::GemmAttrs& attrs,
                             const oracle::Table& y) {
  const ChainNetwork::Layer& layer = network.layers[l];
  const bool is_hidden = network.spec.layers[l].is_hidden;
  ChainInput input;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / layer.y.cols();
    const std::int64_t col = static_cast<std::int64_t>(i) % layer.y.cols();
    oracle::Expected known = y[i];
    if (!is_hidden) {
      known = {static_cast<double>(layer.y.at(row, col))};
    } else if (layer.z) {
      known = oracle::through(attrs, {static_cast<double>(layer.z->at(row, col))});
    }
    input.push_back({known.value, std::isfinite(known.value) ? known.tolerance() : 0});
  }
  return input;
}

}  // namespace detail

/// Every output in `network`, which some target wrote, against the oracle.
[[nodiscard]] inline ChainVerdict check_layers(const ChainNetwork& network) {
  const auto at = [](const support::Buffer& buffer) { return buffer.tensor(); };
  ChainVerdict verdict;
  ChainInput input;
  for (std::int64_t m = 0; m < network.spec.batch; ++m) {
    for (std::int64_t k = 0; k < network.spec.inputs; ++k) {
      const float value = network.spec.trans_a ? network.x.at(k, m) : network.x.at(m, k);
      input.push_back({static_cast<double>(value), 0});
    }
  }
  for (std::size_t l = 0; l < network.depth(); ++l) {
    const ai::GemmForward call = network.call(l, at);
    const oracle::Forward expected = expected_layer(call, input);
    const std::string of = " of layer " + std::to_string(l + 1);
    const ChainNetwork::Layer& layer = network.layers[l];
    if (layer.z) detail::compare("Z" + of, expected.z, *layer.z, verdict);
    if (!network.spec.layers[l].is_hidden) detail::compare("Y" + of, expected.y, layer.y, verdict);
    if (l + 1 < network.depth()) input = detail::next_input(network, l, call.attrs, expected.y);
  }
  const support::Buffer& last = network.last();
  for (std::int64_t row = 0; row < last.rows(); ++row) {
    for (std::int64_t col = 0; col < last.cols(); ++col) {
      if (!std::isfinite(last.at(row, col))) ++verdict.nonfinite;
    }
  }
  return verdict;
}

}  // namespace gpu
