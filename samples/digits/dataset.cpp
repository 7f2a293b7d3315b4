#include "dataset.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

namespace digits {
namespace {

void append(Examples& examples, const float* image, int label) {
  examples.images.insert(examples.images.end(), image, image + kPixels);
  std::array<float, kClasses> target{};
  target[static_cast<std::size_t>(label)] = 1.0F;
  examples.targets.insert(examples.targets.end(), target.begin(), target.end());
  examples.labels.push_back(label);
}

ai::Status bad_row(const std::string& path, int line) {
  return {ai::StatusCode::Invalid, path + ", line " + std::to_string(line) +
                                       ": expected 64 pixels (0..16) and a digit (0..9)"};
}

}  // namespace

ai::Result<Dataset> load_dataset(const std::string& path, int test_count, std::uint32_t seed) {
  std::ifstream file(path);
  if (!file) return ai::Status(ai::StatusCode::Invalid, "cannot read " + path);

  Examples all;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream fields(line);
    std::array<float, kPixels> image{};
    int value = 0;
    char comma = 0;
    for (float& pixel : image) {
      if (!(fields >> value >> comma) || value < 0 || value > 16) return bad_row(path, number);
      pixel = static_cast<float>(value) / 16.0F;
    }
    if (!(fields >> value) || value < 0 || value >= kClasses) return bad_row(path, number);
    append(all, image.data(), value);
  }
  if (all.count() <= test_count) {
    return ai::Status(ai::StatusCode::Invalid, path + " holds only " + std::to_string(all.count()) +
                                                   " rows; " + std::to_string(test_count) +
                                                   " are kept for the test");
  }

  std::vector<int> order(static_cast<std::size_t>(all.count()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  const auto split = order.end() - test_count;
  return Dataset{select(all, {order.begin(), split}), select(all, {split, order.end()})};
}

Examples select(const Examples& examples, const std::vector<int>& order) {
  Examples selected;
  selected.images.reserve(order.size() * kPixels);
  selected.targets.reserve(order.size() * kClasses);
  for (const int i : order) {
    append(selected, examples.images.data() + static_cast<std::ptrdiff_t>(i) * kPixels,
           examples.labels[static_cast<std::size_t>(i)]);
  }
  return selected;
}

}  // namespace digits
