#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include "operands.hpp"
#include "oracle.hpp"

namespace support {

/// Whether `given` may stand for `expected`: NaN for NaN, the same infinity for an infinity (or for
/// what rounds to one), else within the tolerance.
[[nodiscard]] inline bool is_within(const oracle::Expected& expected, float given) {
  const auto rounded = static_cast<float>(expected.value);
  if (std::isnan(rounded)) return std::isnan(given);
  if (std::isinf(rounded)) return given == rounded;
  return std::abs(static_cast<double>(given) - expected.value) <= expected.tolerance();
}

[[nodiscard]] inline bool is_same(const oracle::Expected& expected, float given) {
  return static_cast<float>(expected.value) == given;
}

/// Empty where every element of `given` passes `accept`; else how many do not, and the first one.
template <typename Accept>
[[nodiscard]] std::string difference(const char* name, const oracle::Table& expected,
                                     const Buffer& given, Accept&& accept) {
  const auto count = static_cast<std::size_t>(given.rows() * given.cols());
  if (expected.size() != count) {
    return std::string(name) + " has " + std::to_string(count) + " elements, the oracle has " +
           std::to_string(expected.size());
  }
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = static_cast<std::int64_t>(i) / given.cols();
    const auto col = static_cast<std::int64_t>(i) % given.cols();
    const float value = given.at(row, col);
    if (accept(expected[i], value)) continue;
    if (++wrong > 1) continue;
    char text[200];
    std::snprintf(text, sizeof text, "%s[%lld,%lld] is %.9g, expected %.9g +- %.3g", name,
                  static_cast<long long>(row), static_cast<long long>(col),
                  static_cast<double>(value), expected[i].value, expected[i].tolerance());
    first = text;
  }
  if (wrong == 0) return {};
  return first + " (" + std::to_string(wrong) + " of " + std::to_string(count) + " wrong)";
}

[[nodiscard]] inline std::string difference(const char* name, const oracle::Table& expected,
                                            const Buffer& given) {
  return difference(name, expected, given, is_within);
}
/// For exact operands: bitwise, but for the sign of zero.
[[nodiscard]] inline std::string exact_difference(const char* name, const oracle::Table& expected,
                                                  const Buffer& given) {
  return difference(name, expected, given, is_same);
}

}  // namespace support
