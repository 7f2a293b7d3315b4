#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/cases.hpp"
#include "support/compare.hpp"
#include "support/run_host.hpp"

namespace {

using support::Case;

/// Names of the operands that were written where they must not be.
template <typename Data>
std::string damage(Data& before, Data& after) {
  std::string names;
  std::vector<support::Buffer*> old;
  before.for_each([&](const char*, support::Buffer& buffer, bool) { old.push_back(&buffer); });
  std::size_t i = 0;
  after.for_each([&](const char* name, support::Buffer& buffer, bool is_output) {
    const bool is_kept = is_output ? buffer.canaries_are_intact() : buffer.has_same_bits(*old[i]);
    if (!is_kept) names += std::string(name) + " ";
    ++i;
  });
  return names;
}

template <typename Compare>
void check_forward(const Case& c, Compare&& compare) {
  CAPTURE(support::to_string(c));
  support::ForwardData data(c);
  support::ForwardData before = data;
  const oracle::Forward expected = oracle::forward(data.call());
  const ai::Status status = support::run_on_host(data.call());
  REQUIRE_MESSAGE(status.ok(), status.to_string());
  CHECK(compare("Y", expected.y, data.y) == "");
  if (data.z) CHECK(compare("Z", expected.z, *data.z) == "");
  CHECK(damage(before, data) == "");
}

template <typename Compare>
void check_backward(const Case& c, Compare&& compare) {
  support::BackwardData data(c);
  if (!data.has_gradient() || !support::is_backward_case(c)) return;
  CAPTURE(support::to_string(c));
  support::BackwardData before = data;
  const oracle::Backward expected = oracle::backward(data.call());
  const ai::Status status = support::run_on_host(data.call(), support::Order::Late);
  REQUIRE_MESSAGE(status.ok(), status.to_string());
  if (data.ga) CHECK(compare("gA", expected.ga, *data.ga) == "");
  if (data.gb) CHECK(compare("gB", expected.gb, *data.gb) == "");
  if (data.gc) CHECK(compare("gC", expected.gc, *data.gc) == "");
  if (data.gbias) CHECK(compare("gBias", expected.gbias, *data.gbias) == "");
  CHECK(damage(before, data) == "");
}

const auto kWithin = [](const char* name, const oracle::Table& expected,
                        const support::Buffer& given) {
  return support::difference(name, expected, given);
};
const auto kExact = [](const char* name, const oracle::Table& expected,
                       const support::Buffer& given) {
  return support::exact_difference(name, expected, given);
};

// The last two cross the borders of the host's tiles.
const std::vector<support::Shape> kShapes = {{5, 7, 3}, {8, 4, 6}, {17, 65, 67}, {32, 64, 128}};

TEST_CASE("host forward equals the oracle for every activation, bias, transpose, Z and C") {
  const std::vector<Case> cases = support::full_cross(kShapes);
  CHECK(cases.size() == 4 * 9 * 4 * 16);
  for (const Case& c : cases) check_forward(c, kWithin);
}

TEST_CASE("host backward equals the oracle for every activation, bias, transpose, Z and C") {
  for (const Case& c : support::full_cross(kShapes)) check_backward(c, kWithin);
}

TEST_CASE("host equals the oracle at every edge: empty extents, padding, offsets, modes, scales") {
  for (const Case& c : support::edge_cases()) {
    check_forward(c, kWithin);
    check_backward(c, kWithin);
  }
}

TEST_CASE("host is bitwise exact on integers of 13 bits, in both operand orders") {
  for (const Case& c : support::exact_cases({{9, 17, 130}, {16, 16, 64}, {1, 33, 257}})) {
    check_forward(c, kExact);
    check_backward(c, kExact);
  }
}

}  // namespace
