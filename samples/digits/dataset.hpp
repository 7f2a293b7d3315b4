#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ai/status.hpp"

namespace digits {

constexpr int kPixels = 64;
constexpr int kClasses = 10;

/// Images as rows of kPixels values in [0, 1] and their classes as one-hot rows of kClasses.
struct Examples {
  std::vector<float> images;
  std::vector<float> targets;
  std::vector<int> labels;

  [[nodiscard]] int count() const { return static_cast<int>(labels.size()); }
};

struct Dataset {
  Examples train;
  Examples test;
};

/// Reads the comma-separated file, shuffles its rows with `seed`, and keeps the last `test_count`
/// rows for the test.
[[nodiscard]] ai::Result<Dataset> load_dataset(const std::string& path, int test_count,
                                               std::uint32_t seed);

/// The examples in the order that `order` gives; `order` may name fewer than there are.
[[nodiscard]] Examples select(const Examples& examples, const std::vector<int>& order);

}  // namespace digits
