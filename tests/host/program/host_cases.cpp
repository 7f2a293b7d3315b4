#include <doctest/doctest.h>

#include <vector>

#include "support/check_case.hpp"
#include "support/run_host.hpp"

namespace {

using support::Case;

const auto kOnHost = [](const support::ForwardData& data) {
  return support::run_on_host(data.call());
};
const auto kOnHostLate = [](const support::BackwardData& data) {
  return support::run_on_host(data.call(), support::Order::Late);
};

template <typename Compare>
void check_forward(const Case& c, Compare&& compare) {
  support::check_forward(c, kOnHost, compare);
}
template <typename Compare>
void check_backward(const Case& c, Compare&& compare) {
  support::check_backward(c, kOnHostLate, compare);
}

// The last two cross the borders of the host's tiles.
const std::vector<support::Shape> kShapes = {{5, 7, 3}, {8, 4, 6}, {17, 65, 67}, {32, 64, 128}};

TEST_CASE("host forward equals the oracle for every activation, bias, transpose, Z and C") {
  const std::vector<Case> cases = support::full_cross(kShapes);
  CHECK(cases.size() == 4 * 9 * 4 * 16);
  for (const Case& c : cases) check_forward(c, support::kWithin);
}

TEST_CASE("host backward equals the oracle for every activation, bias, transpose, Z and C") {
  for (const Case& c : support::full_cross(kShapes)) check_backward(c, support::kWithin);
}

TEST_CASE("host equals the oracle at every edge: empty extents, padding, offsets, modes, scales") {
  for (const Case& c : support::edge_cases()) {
    check_forward(c, support::kWithin);
    check_backward(c, support::kWithin);
  }
}

TEST_CASE("host is bitwise exact on integers of 13 bits, in both operand orders") {
  for (const Case& c : support::exact_cases({{9, 17, 130}, {16, 16, 64}, {1, 33, 257}})) {
    check_forward(c, support::kExact);
    check_backward(c, support::kExact);
  }
}

}  // namespace
