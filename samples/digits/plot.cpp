#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace digits {

std::string plot(const std::vector<float>& values, int width, int height) {
  if (values.empty()) return {};
  constexpr float kLeast = 1e-30F;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const float bottom = std::log(std::max(*low, kLeast));
  const float span = std::max(std::log(std::max(*high, kLeast)) - bottom, 1e-6F);

  std::vector<std::string> rows(static_cast<std::size_t>(height),
                                std::string(static_cast<std::size_t>(width), ' '));
  for (int x = 0; x < width; ++x) {
    const std::size_t i = static_cast<std::size_t>(x) * (values.size() - 1) /
                          static_cast<std::size_t>(std::max(width - 1, 1));
    const float share = (std::log(std::max(values[i], kLeast)) - bottom) / span;
    const int y = static_cast<int>(std::lround(share * static_cast<float>(height - 1)));
    rows[static_cast<std::size_t>(height - 1 - y)][static_cast<std::size_t>(x)] = '*';
  }

  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const float share =
        1.0F - static_cast<float>(row) / static_cast<float>(std::max(height - 1, 1));
    char label[16];
    std::snprintf(label, sizeof label, "%9.4f",
                  static_cast<double>(std::exp(bottom + share * span)));
    text += std::string(label) + " |" + rows[row] + '\n';
  }
  return text + std::string(10, ' ') + '+' + std::string(static_cast<std::size_t>(width), '-') +
         '\n';
}

std::string bar(int done, int total, int width) {
  const int filled = total > 0 ? done * width / total : width;
  return '[' + std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(width - filled), '.') + ']';
}

}  // namespace digits
