// What the table of cases promises to hold, so that nobody thins it unseen.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "support/case_tables.hpp"
#include "support/check_case.hpp"
#include "support/run_host.hpp"

namespace {

using support::BackwardData;
using support::Case;
using support::ForwardData;
using support::Moved;
using support::Wanted;

const std::vector<Case>& table() {
  static const std::vector<Case> kCases = [] {
    std::vector<Case> all;
    for (const support::CaseGroup& group : support::case_table()) {
      all.insert(all.end(), group.cases.begin(), group.cases.end());
    }
    return all;
  }();
  return kCases;
}

/// Every value of `property` among the cases that have a call in the direction of Data.
template <typename Data, typename Property>
auto values_of(Property&& property) {
  std::set<decltype(property(Case()))> values;
  for (const Case& c : table()) {
    if (support::asks<Data>(c)) values.insert(property(c));
  }
  return values;
}

/// Whether both directions meet each of `wanted`.
template <typename Property, typename Value>
bool both_meet(Property&& property, const std::vector<Value>& wanted) {
  const auto forward = values_of<ForwardData>(property);
  const auto backward = values_of<BackwardData>(property);
  return std::all_of(wanted.begin(), wanted.end(), [&](const Value& value) {
    return forward.count(value) == 1 && backward.count(value) == 1;
  });
}

// Said again here: what the table promises, not what it has.
constexpr std::int64_t kExtents[] = {0, 1, 2, 31, 33, 127, 128, 129, 1000, 1024};

std::int64_t extent(const Case& c, int axis) {
  return axis == 0 ? c.m : axis == 1 ? c.n : c.k;
}

TEST_CASE("the table has every extent on every axis, with every bias kind and transposes, padded") {
  for (int axis = 0; axis < 3; ++axis) {
    for (const std::int64_t value : kExtents) {
      CAPTURE(axis);
      CAPTURE(value);
      for (const ai::BiasKind bias : support::kBiasKinds) {
        CHECK(both_meet([&](const Case& c) { return std::tuple(extent(c, axis), c.bias); },
                        std::vector{std::tuple(value, bias)}));
      }
      for (const bool trans_a : {false, true}) {
        for (const bool trans_b : {false, true}) {
          CHECK(both_meet(
              [&](const Case& c) { return std::tuple(extent(c, axis), c.trans_a, c.trans_b); },
              std::vector{std::tuple(value, trans_a, trans_b)}));
        }
      }
      for (const std::int64_t pad : {0, 3}) {
        CHECK(both_meet([&](const Case& c) { return std::tuple(extent(c, axis), c.pad); },
                        std::vector{std::tuple(value, pad)}));
      }
    }
  }
}

TEST_CASE("the table has every two extents on every two axes") {
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<std::tuple<std::int64_t, std::int64_t>> pairs;
    for (const std::int64_t one : kExtents) {
      for (const std::int64_t other : kExtents) pairs.emplace_back(one, other);
    }
    CHECK(both_meet(
        [&](const Case& c) { return std::tuple(extent(c, axis), extent(c, (axis + 1) % 3)); },
        pairs));
  }
}

TEST_CASE("the table has every product of small extents") {
  const auto has = values_of<ForwardData>([](const Case& c) { return std::tuple(c.m, c.n, c.k); });
  const auto has_backward =
      values_of<BackwardData>([](const Case& c) { return std::tuple(c.m, c.n, c.k); });
  for (const std::int64_t m : {0, 1, 2, 31, 33}) {
    for (const std::int64_t n : {0, 1, 2, 31, 33}) {
      for (const std::int64_t k : {0, 1, 2, 31, 33}) {
        CHECK(has.count({m, n, k}) == 1);
        CHECK(has_backward.count({m, n, k}) == 1);
      }
    }
  }
}

TEST_CASE("the table has every activation with every bias kind, transposes, C, and Z forward") {
  CHECK(std::size(support::kActs) == 9);
  CHECK(std::size(support::kBiasKinds) == 4);
  for (const ai::ActKind act : support::kActs) {
    for (const ai::BiasKind bias : support::kBiasKinds) {
      for (unsigned bits = 0; bits < 8; ++bits) {
        const bool trans_a = (bits & 1U) != 0;
        const bool trans_b = (bits & 2U) != 0;
        const bool with_c = (bits & 4U) != 0;
        CHECK(both_meet(
            [](const Case& c) { return std::tuple(c.act, c.bias, c.trans_a, c.trans_b, c.with_c); },
            std::vector{std::tuple(act, bias, trans_a, trans_b, with_c)}));
      }
      const auto saved =
          values_of<ForwardData>([](const Case& c) { return std::tuple(c.act, c.bias, c.with_z); });
      CHECK(saved.count({act, bias, false}) == 1);
      CHECK(saved.count({act, bias, true}) == 1);
    }
  }
}

TEST_CASE("the table has every bias stride with every kind, whatever the matrices' padding") {
  for (const ai::BiasKind bias : {ai::BiasKind::Scalar, ai::BiasKind::PerN, ai::BiasKind::PerM}) {
    for (const std::int64_t stride : {1, 2, 7}) {
      for (const std::int64_t pad : {0, 3}) {
        for (const Wanted mode : {Wanted::Overwrite, Wanted::Accumulate}) {
          CHECK(both_meet(
              [](const Case& c) { return std::tuple(c.bias, c.bias_stride, c.pad, c.gbias); },
              std::vector{std::tuple(bias, stride, pad, mode)}));
        }
      }
    }
  }
}

TEST_CASE("C13: the table has every offset on all operands and on each operand that is there") {
  const auto property = [](const Case& c) {
    return std::tuple(c.offset, c.moved, c.m, c.pad, c.act);
  };
  const auto forward = values_of<ForwardData>(property);
  const auto backward = values_of<BackwardData>(property);
  const std::set<Moved> of_forward = {Moved::All,  Moved::A, Moved::B, Moved::C,
                                      Moved::Bias, Moved::Y, Moved::Z};
  const std::set<Moved> of_backward = {Moved::All, Moved::A,  Moved::B,  Moved::Z,    Moved::GY,
                                       Moved::GA,  Moved::GB, Moved::GC, Moved::GBias};
  for (const std::int64_t offset : {1, 2, 3}) {
    for (const auto& [m, pad] : {std::pair(127, 0), {127, 3}, {64, 0}, {64, 4}}) {
      for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
        for (const Moved moved : of_forward)
          CHECK(forward.count({offset, moved, m, pad, act}) == 1);
        for (const Moved moved : of_backward) {
          CHECK(backward.count({offset, moved, m, pad, act}) == 1);
        }
      }
    }
  }
  // And an operand that is said to move does, by that much, alone.
  for (const Case& c : support::cases_of("alignment")) {
    const auto look = [&](auto data) {
      int moves = 0;
      int operands = 0;
      data.for_each([&](const char* name, support::Buffer& buffer, bool) {
        const auto at = static_cast<const float*>(buffer.tensor().data) - buffer.raw().data();
        ++operands;
        if (at == support::Buffer::kGuard) return;
        ++moves;
        CHECK(at == support::Buffer::kGuard + c.offset);
        CHECK((c.moved == Moved::All || std::string(name) == support::to_string(c.moved)));
      });
      CHECK(moves == (c.moved == Moved::All ? operands : 1));
    };
    CAPTURE(support::to_string(c));
    if (support::asks<ForwardData>(c)) look(ForwardData(c));
    if (support::asks<BackwardData>(c)) look(BackwardData(c));
  }
}

TEST_CASE("the table has every alpha with every beta, with and without bias, C in place or not") {
  for (const float alpha : {1.0F, 0.0F, 0.5F, -1.0F}) {
    for (const float beta : {1.0F, 0.0F, 0.5F, -1.0F}) {
      for (const ai::BiasKind bias : {ai::BiasKind::None, ai::BiasKind::PerN}) {
        for (const bool in_place : {false, true}) {
          CHECK(both_meet(
              [](const Case& c) {
                return std::tuple(c.alpha, c.beta, c.bias, c.in_place, c.with_c);
              },
              std::vector{std::tuple(alpha, beta, bias, in_place, true)}));
        }
      }
    }
  }
}

TEST_CASE("the table has every subset of the gradients, each wanted one in each mode") {
  const auto modes = values_of<BackwardData>([](const Case& c) {
    return std::tuple(c.ga, c.gb, c.with_c ? c.gc : Wanted::No,
                      c.bias != ai::BiasKind::None ? c.gbias : Wanted::No);
  });
  CHECK(modes.size() == 80);  // 3^4, less the empty one
}

TEST_CASE("what must not be read is poisoned, and every output is") {
  Case c{3, 4, 5, ai::BiasKind::PerN};
  c.with_c = c.with_z = true;
  c.alpha = c.beta = 0.0F;
  const auto is_poisoned = [](const support::Buffer& buffer) {
    return support::bits_of(buffer.at(0, 0)) == support::kPoisonBits;
  };
  ForwardData forward(c);
  CHECK(is_poisoned(forward.a));
  CHECK(is_poisoned(forward.b));
  CHECK(is_poisoned(*forward.c));
  CHECK(is_poisoned(forward.y));
  CHECK(is_poisoned(*forward.z));
  CHECK_FALSE(is_poisoned(*forward.bias));
  BackwardData backward(c);
  CHECK(is_poisoned(backward.a));
  CHECK(is_poisoned(backward.b));
  CHECK(is_poisoned(*backward.c));
  for (const auto& gradient : {backward.ga, backward.gb, backward.gc, backward.gbias}) {
    CHECK(is_poisoned(*gradient));
  }
  CHECK_FALSE(is_poisoned(backward.gy));
  c.alpha = c.beta = 1.0F;
  CHECK_FALSE(is_poisoned(ForwardData(c).a));
  CHECK_FALSE(is_poisoned(*ForwardData(c).c));
  c.in_place = true;
  CHECK_FALSE(is_poisoned(ForwardData(c).y));
}

/// What the check says of a right run that `spoil(data)` then spoils.
template <typename Data, typename Spoil>
std::string faults_of(const Case& c, Spoil&& spoil) {
  const Data before(c);
  Data data = before;
  REQUIRE(support::run_on_host(data.call()).ok());
  spoil(data);
  return support::faults(before, data, support::answers(before));
}

TEST_CASE("the check of a run sees wrong, unwritten and misplaced results, and touched inputs") {
  Case c{5, 6, 7, ai::BiasKind::PerN, ai::ActKind::None};
  c.with_z = c.with_c = true;
  c.pad = 3;
  const auto forward = [&](auto&& spoil) { return faults_of<ForwardData>(c, spoil); };
  const auto backward = [&](auto&& spoil) { return faults_of<BackwardData>(c, spoil); };
  CHECK(forward([](ForwardData&) {}) == "");
  CHECK(backward([](BackwardData&) {}) == "");
  const auto begins = [](const std::string& text, const char* with) {
    CAPTURE(text);
    CHECK(text.find(with) == 0);
  };
  begins(forward([](ForwardData& data) { data.y.at(4, 5) *= -1; }), "Y[4,5] is");
  begins(forward([](ForwardData& data) { data.z->poison(); }), "Z[0,0] is nan");
  begins(forward([](ForwardData& data) { data.a.at(1, 1) += 1; }), "damaged: A ");
  begins(forward([](ForwardData& data) { data.bias->raw()[0] = 0; }), "damaged: bias ");
  begins(forward([](ForwardData& data) { data.y.raw()[support::Buffer::kGuard + 6] = 0; }),
         "damaged: Y ");
  begins(backward([](BackwardData& data) { data.ga->at(0, 0) *= 1.001F; }), "gA[0,0] is");
  begins(backward([](BackwardData& data) { data.gbias->at(0, 5) = 0; }), "gBias[0,5] is");
  begins(backward([](BackwardData& data) { data.c->at(0, 0) = 0; }), "damaged: C ");
  c.values = support::Values::ExactLeft;
  begins(forward([](ForwardData& data) { data.y.at(0, 0) += 1; }), "Y[0,0] is");

  const ForwardData one(c);
  ForwardData same = one;
  ForwardData other = one;
  CHECK(support::different_bits(same, other) == "");
  other.y.at(2, 2) = support::from_bits(support::kPoisonBits + 1);
  CHECK(support::different_bits(same, other) == "Y ");
}

}  // namespace
