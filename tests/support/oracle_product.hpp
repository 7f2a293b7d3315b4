#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "activation_oracle.hpp"

namespace oracle {

/// One element: a sum of `length` terms whose absolute values sum to `terms`, and what is owed on
/// top of the sum's own rounding (activations).
struct Expected {
  double value = 0;
  double terms = 0;
  std::int64_t length = 0;
  double extra = 0;

  /// An f32 sum in any sensible order (blocks, trees, fused multiply-add) strays from the exact one
  /// like a random walk, by about sqrt(length) roundings of partial sums: 2 sqrt(length) + 8 leaves
  /// room. The worst case, length, would let TF32 pass.
  [[nodiscard]] double tolerance() const {
    return (2 * std::sqrt(static_cast<double>(length)) + 8) * kEps * terms + extra;
  }
  void add(double term) {
    value += term;
    terms += std::abs(term);
    ++length;
  }
};

/// Row-major, packed, of the shape the tensor is stored in.
using Table = std::vector<Expected>;

/// A factor's element and what it may be off.
struct Factor {
  double value = 0;
  double extra = 0;
};

/// For each i < rows, j < cols: the sum over x < depth, in that order, of left(i, x) right(x, j),
/// Factors both. Eight columns at a time, so that a large case takes a fraction of a second.
template <typename Left, typename Right>
[[nodiscard]] Table sums_of_products(std::int64_t rows, std::int64_t cols, std::int64_t depth,
                                     Left&& left, Right&& right) {
  constexpr std::int64_t kLanes = 8;
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  Table out(size(rows * cols));
  if (out.empty() || depth == 0) return out;

  bool has_extra = false;
  std::vector<Factor> packed_left;
  packed_left.reserve(size(rows * depth));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t x = 0; x < depth; ++x) {
      packed_left.push_back(left(i, x));
      has_extra = has_extra || packed_left.back().extra != 0;
    }
  }
  struct Lanes {
    double value[kLanes];
    double extra[kLanes];
  };
  std::vector<Lanes> block(size(depth));
  for (std::int64_t first = 0; first < cols; first += kLanes) {
    const std::int64_t lanes = std::min(kLanes, cols - first);
    for (std::int64_t x = 0; x < depth; ++x) {
      Lanes& at = block[size(x)];
      at = {};
      for (std::int64_t j = 0; j < lanes; ++j) {
        const Factor factor = right(x, first + j);
        at.value[j] = factor.value;
        at.extra[j] = factor.extra;
        has_extra = has_extra || factor.extra != 0;
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const Factor* l = &packed_left[size(i * depth)];
      double value[kLanes] = {};
      double terms[kLanes] = {};
      double extra[kLanes] = {};
      for (std::int64_t x = 0; x < depth; ++x) {
        for (std::int64_t j = 0; j < kLanes; ++j) {
          const double term = l[x].value * block[size(x)].value[j];
          value[j] += term;
          terms[j] += std::abs(term);
        }
      }
      for (std::int64_t x = 0; has_extra && x < depth; ++x) {
        const Lanes& r = block[size(x)];
        for (std::int64_t j = 0; j < kLanes; ++j) {
          extra[j] += l[x].extra * std::abs(r.value[j]) + std::abs(l[x].value) * r.extra[j];
        }
      }
      for (std::int64_t j = 0; j < lanes; ++j) {
        out[size(i * cols + first + j)] = {value[j], terms[j], depth, extra[j]};
      }
    }
  }
  return out;
}

}  // namespace oracle
