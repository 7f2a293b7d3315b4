#pragma once

#include <string>
#include <vector>

namespace digits {

/// `values` (all > 0) over their index as text, `width` x `height` characters, logarithmic upwards.
[[nodiscard]] std::string plot(const std::vector<float>& values, int width = 60, int height = 10);

/// "[######......] " filled by `done` of `total`.
[[nodiscard]] std::string bar(int done, int total, int width = 30);

}  // namespace digits
