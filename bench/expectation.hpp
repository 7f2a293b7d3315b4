#pragma once

#include <cstdint>
#include <vector>

#include "host_network.hpp"
#include "support/oracle_product.hpp"

namespace bench {

/// What each element of a step should be, from what the contestant wrote for what it is made of,
/// and how far off it may be.
class Expectation {
 public:
  using Expected = oracle::Expected;

  /// `before` has the weights that the step began with, `after` everything else. Both are borrowed.
  /// act and act' may be off by `activation_error` beyond rounding.
  Expectation(const HostNetwork& before, const HostNetwork& after, double activation_error);

  /// Whether the contestant wrote the z of layer `l`.
  [[nodiscard]] bool has_z(int l) const { return has_z_[static_cast<std::size_t>(l)]; }

  [[nodiscard]] Expected z(int l, std::int64_t m, std::int64_t n) const;
  [[nodiscard]] Expected y(int l, std::int64_t m, std::int64_t n) const;

  /// The gradient of y: from the loss, or from the gz of the layer above, which must have been
  /// taken.
  [[nodiscard]] Expected gy(int l, std::int64_t m, std::int64_t n) const;
  /// gy times act'; gy is the contestant's own, or else expected as well.
  [[nodiscard]] Expected gz(int l, std::int64_t m, std::int64_t n, bool from_own_gy) const;

  /// Settles the gz of layer `l` that gw, gb and the gy below are made of: the contestant's, or
  /// else its gy times act'.
  void take_gz(int l, bool is_own);
  [[nodiscard]] Expected gw(int l, std::int64_t k, std::int64_t n) const;
  [[nodiscard]] Expected gb(std::int64_t n) const;

  /// old - kLearningRate * gradient. Tighter than a sum's bound, which would hide the update.
  [[nodiscard]] static Expected updated(double old, double gradient);

 private:
  [[nodiscard]] oracle::Factor slope(int l, std::int64_t m, std::int64_t n) const;
  [[nodiscard]] const oracle::Factor& taken(std::int64_t m, std::int64_t n) const {
    return gz_[static_cast<std::size_t>(m * gz_cols_ + n)];
  }

  const HostNetwork& before_;
  const HostNetwork& after_;
  const double activation_error_;
  std::vector<bool> has_z_;
  std::vector<oracle::Factor> gz_;
  std::int64_t gz_cols_ = 0;
};

}  // namespace bench
