#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cases.hpp"
#include "compare.hpp"

/// Runs one case on some target and holds every output, and everything around it, against the
/// oracle. `run(data)` carries out data.call(); `compare` is one of the differences of compare.hpp.
namespace support {

/// Names of the operands that were written where they must not be.
template <typename Data>
[[nodiscard]] std::string damage(Data& before, Data& after) {
  std::string names;
  std::vector<Buffer*> old;
  before.for_each([&](const char*, Buffer& buffer, bool) { old.push_back(&buffer); });
  std::size_t i = 0;
  after.for_each([&](const char* name, Buffer& buffer, bool is_output) {
    const bool is_kept = is_output ? buffer.canaries_are_intact() : buffer.has_same_bits(*old[i]);
    if (!is_kept) names += std::string(name) + " ";
    ++i;
  });
  return names;
}

inline const auto kWithin = [](const char* name, const oracle::Table& expected,
                               const Buffer& given) { return difference(name, expected, given); };
inline const auto kExact = [](const char* name, const oracle::Table& expected,
                              const Buffer& given) {
  return exact_difference(name, expected, given);
};

template <typename Run, typename Compare>
void check_forward(const Case& c, Run&& run, Compare&& compare) {
  CAPTURE(to_string(c));
  ForwardData data(c);
  ForwardData before = data;
  const oracle::Forward expected = oracle::forward(data.call());
  const ai::Status status = run(data);
  REQUIRE_MESSAGE(status.ok(), status.to_string());
  CHECK(compare("Y", expected.y, data.y) == "");
  if (data.z) CHECK(compare("Z", expected.z, *data.z) == "");
  CHECK(damage(before, data) == "");
}

template <typename Run, typename Compare>
void check_backward(const Case& c, Run&& run, Compare&& compare) {
  BackwardData data(c);
  if (!data.has_gradient() || !is_backward_case(c)) return;
  CAPTURE(to_string(c));
  BackwardData before = data;
  const oracle::Backward expected = oracle::backward(data.call());
  const ai::Status status = run(data);
  REQUIRE_MESSAGE(status.ok(), status.to_string());
  if (data.ga) CHECK(compare("gA", expected.ga, *data.ga) == "");
  if (data.gb) CHECK(compare("gB", expected.gb, *data.gb) == "");
  if (data.gc) CHECK(compare("gC", expected.gc, *data.gc) == "");
  if (data.gbias) CHECK(compare("gBias", expected.gbias, *data.gbias) == "");
  CHECK(damage(before, data) == "");
}

}  // namespace support
