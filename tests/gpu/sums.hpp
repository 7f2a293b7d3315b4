#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>

#include "device_matrix.hpp"

namespace gpu {

/// gBias of each kind over gY[m,n] = (row % 3 - 1) + (col % 5 - 2), whose sums are small integers
/// for any extents, and known.
inline void check_exact_sums(std::int64_t m, std::int64_t n, std::span<const Road> roads) {
  const auto row_sum = [](std::int64_t rows) { return rows % 3 == 0 ? 0 : -1; };
  const auto col_sum = [](std::int64_t cols) {
    constexpr int kSumOf[] = {0, -2, -3, -3, -2};
    return kSumOf[cols % 5];
  };
  Pattern values;
  values.constant = -3;
  values.per_row = 1;
  values.row_period = 3;
  values.per_col = 1;
  values.col_period = 5;
  DeviceMatrix gy(m, n);
  gy.fill(values);
  for (const ai::BiasKind kind : kSums) {
    const auto [rows, cols] = bias_shape(kind, m, n);
    DeviceMatrix gbias(rows, cols);
    const auto down = static_cast<double>(row_sum(m));
    const auto along = static_cast<double>(col_sum(n));
    Pattern expected;
    if (kind == ai::BiasKind::PerN && n > 1) {
      expected.constant = down - 2.0 * static_cast<double>(m);
      expected.per_col = static_cast<double>(m);
      expected.col_period = 5;
    } else if (kind == ai::BiasKind::PerM && m > 1) {
      expected.constant = along - static_cast<double>(n);
      expected.per_row = static_cast<double>(n);
      expected.row_period = 3;
    } else {  // one element, whatever the kind: all of gY
      expected.constant = static_cast<double>(n) * down + static_cast<double>(m) * along;
    }
    for (const Road road : roads) {
      INFO(m, "x", n, " gBias ", std::string(ai::to_string(kind)), ", ", to_string(road));
      gbias.poison();
      const ai::Status status = carry_out(road, gbias_call(gy, gbias));
      CHECK_MESSAGE(status.ok(), status.to_string());
      if (status.ok()) CHECK(gbias.difference("gBias", expected) == "");
    }
  }
}

}  // namespace gpu
