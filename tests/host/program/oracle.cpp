#include "support/oracle.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/cases.hpp"
#include "support/compare.hpp"

/// The checkers, checked: they know the right answer and refuse wrong ones.
namespace {

using support::Buffer;
using support::Case;

float rounded_to_tf32(float value) {
  return support::from_bits((support::bits_of(value) + 0x1000U) & 0xffffe000U);
}

TEST_CASE("the oracle's forward and backward equal a calculation by hand") {
  Case c{2, 2, 1, ai::BiasKind::PerN, ai::ActKind::ReLU};
  c.with_z = c.with_c = true;
  c.alpha = 2.0F;
  c.beta = -1.0F;
  support::ForwardData data(c);
  const auto set = [](Buffer& buffer, std::vector<float> values) {
    std::size_t i = 0;
    buffer.for_each([&](float& element) { element = values[i++]; });
  };
  set(data.a, {1, 3});
  set(data.b, {5, -7});
  set(*data.c, {1, 2, 3, 4});
  set(*data.bias, {10, 20});
  const oracle::Forward forward = oracle::forward(data.call());
  const double z[] = {2 * 5 - 1 + 10, 2 * -7 - 2 + 20, 2 * 15 - 3 + 10, 2 * -21 - 4 + 20};
  const double y[] = {19, 4, 37, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(forward.z[i].value == z[i]);
    CHECK(forward.y[i].value == y[i]);
  }
  CHECK(forward.z[3].terms == 42 + 4 + 20);
  CHECK(forward.z[3].length == 1);

  c.ga = support::Wanted::Accumulate;
  support::BackwardData back(c);
  set(back.a, {1, 3});
  set(back.b, {5, -7});
  set(*back.z, {19, 4, 37, -26});
  set(back.gy, {1, 2, 3, 4});
  set(*back.ga, {100, 200});
  const oracle::Backward backward = oracle::backward(back.call());
  CHECK(backward.ga[0].value == 100 + 2 * (1 * 5 + 2 * -7));
  CHECK(backward.ga[1].value == 200 + 2 * (3 * 5));
  CHECK(backward.gb[0].value == 2 * (1 * 1 + 3 * 3));
  CHECK(backward.gb[1].value == 2 * (1 * 2));
  CHECK(backward.gc[2].value == -3);
  CHECK(backward.gc[3].value == 0);
  CHECK(backward.gbias[0].value == 4);
  CHECK(backward.gbias[1].value == 2);
  CHECK(backward.gbias[0].length == 2);
}

/// How many elements of a [32,32] f32 product with depth 256 the bound refuses.
template <typename Operand>
int refused_products(Operand&& operand) {
  Case c{32, 32, 256};
  support::ForwardData data(c);
  const oracle::Forward expected = oracle::forward(data.call());
  for (std::int64_t m = 0; m < c.m; ++m) {
    for (std::int64_t n = 0; n < c.n; ++n) {
      float sum = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        sum = std::fma(operand(data.a.at(m, k)), operand(data.b.at(k, n)), sum);
      }
      data.y.at(m, n) = sum;
    }
  }
  int refused = 0;
  for (std::size_t i = 0; i < expected.y.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    refused += support::is_within(expected.y[i], data.y.at(at / c.n, at % c.n)) ? 0 : 1;
  }
  return refused;
}

TEST_CASE("the bound takes an f32 sum and refuses TF32 operands") {
  CHECK(refused_products([](float value) { return value; }) == 0);
  CHECK(refused_products(rounded_to_tf32) > 100);
}

TEST_CASE("exact operands show TF32 rounding in every element") {
  support::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const float value = random.integer_13_bits();
    CHECK(std::abs(value) >= 4097.0F);
    CHECK(std::abs(value) <= 8191.0F);
    CHECK(rounded_to_tf32(value) != value);
    const float other = random.uniform();
    CHECK(std::abs(other) < 1.0F);
  }
}

TEST_CASE("NaN and infinities must match in kind") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto expect = [](double value) { return oracle::Expected{value, std::abs(value), 1, 0}; };
  CHECK(support::is_within(expect(static_cast<double>(nan)), nan));
  CHECK_FALSE(support::is_within(expect(static_cast<double>(nan)), 0.0F));
  CHECK_FALSE(support::is_within(expect(1), nan));
  CHECK_FALSE(support::is_within(expect(1), inf));
  CHECK(support::is_within(expect(static_cast<double>(inf)), inf));
  CHECK_FALSE(support::is_within(expect(static_cast<double>(inf)), -inf));
  CHECK_FALSE(support::is_within(expect(static_cast<double>(inf)), nan));
  CHECK(support::is_within(expect(1e39), inf));
}

TEST_CASE("a comparison names the first wrong element and counts them") {
  Buffer given = Buffer::matrix(2, 2, 1);
  given.fill(1.0F);
  oracle::Table expected(4, oracle::Expected{1, 1, 1, 0});
  CHECK(support::difference("Y", expected, given) == "");
  given.at(1, 0) = 1.001F;
  given.at(1, 1) = -1.0F;
  const std::string text = support::difference("Y", expected, given);
  CHECK(text.find("Y[1,0] is 1.00") == 0);
  CHECK(text.find("2 of 4 wrong") != std::string::npos);
  expected.pop_back();
  CHECK(support::difference("Y", expected, given) == "Y has 4 elements, the oracle has 3");
}

TEST_CASE("a write beside the elements breaks a canary, one on them does not") {
  const Buffer clean = Buffer::matrix(3, 5, 2, 1);
  Buffer buffer = clean;
  buffer.fill(7.0F);
  CHECK(buffer.canaries_are_intact());
  CHECK_FALSE(buffer.has_same_bits(clean));
  const auto element = static_cast<std::size_t>(Buffer::kGuard + 1);
  for (const std::size_t at : {element - 1, element + 5, element + 6, element + 2 * 7 + 5}) {
    Buffer damaged = buffer;
    damaged.raw()[at] = 7.0F;
    CHECK_FALSE(damaged.canaries_are_intact());
  }
  Buffer column = Buffer::bias(ai::BiasKind::PerM, 4, 9, 3);
  column.fill(1.0F);
  CHECK(column.canaries_are_intact());
  CHECK(column.tensor().desc.shape == ai::Extents{4, 1});
}

}  // namespace
