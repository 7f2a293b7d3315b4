#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "row.hpp"

namespace bench {

/// A float matrix [rows, cols] in host memory, row-major and packed.
struct HostMatrix {
  int rows = 0;
  int cols = 0;
  std::vector<float> values;

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  [[nodiscard]] double at(std::int64_t row, std::int64_t col) const {
    return static_cast<double>(values[static_cast<std::size_t>(row * cols + col)]);
  }
  /// Whether something has written into it since it was poisoned.
  [[nodiscard]] bool is_written() const;
};

/// A row's matrices in host memory: what Network is on the device.
struct HostNetwork {
  struct Layer {
    HostMatrix w, b;
    HostMatrix z, y, gy, gz;
    HostMatrix gw, gb;
  };

  /// As a row begins: data by formula, results poisoned.
  explicit HostNetwork(const Row& of);

  [[nodiscard]] const HostMatrix& input_of(int l) const {
    return l == 0 ? x : layers[static_cast<std::size_t>(l - 1)].y;
  }

  Row row;
  HostMatrix x, target;
  std::vector<Layer> layers;
};

}  // namespace bench
