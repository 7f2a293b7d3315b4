// The table of cases on the host: as steps in the latest order that hazards allow, as an
// executable, and by the direct path.
#include <doctest/doctest.h>

#include <vector>

#include "support/case_tables.hpp"
#include "support/check_case.hpp"
#include "support/roads.hpp"
#include "support/run_host.hpp"

namespace {

using support::Case;

struct Late {
  ai::Status operator()(const support::ForwardData& data) const {
    return support::run_on_host(data.call());
  }
  ai::Status operator()(const support::BackwardData& data) const {
    return support::run_on_host(data.call(), support::Order::Late);
  }
};

struct Direct {
  template <typename Data>
  ai::Status operator()(const Data& data) const {
    return support::direct(data.call(), nullptr, support::takes_operand_form(data.spec));
  }
};

/// Some of a group where all of it takes too long: a case of every stride, and none that large.
std::vector<Case> affordable(std::vector<Case> cases) {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t kStride = 3;
  constexpr std::int64_t kMostProducts = std::int64_t{1} << 21;
#else
  constexpr std::size_t kStride = 1;
  constexpr std::int64_t kMostProducts = std::int64_t{1} << 26;
#endif
  std::vector<Case> kept;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    if (i % kStride == 0 && c.m * c.n * c.k <= kMostProducts) kept.push_back(c);
  }
  return kept;
}

void check(const char* group, const std::vector<Case>& cases) {
  const std::vector<support::Road> roads = {{"steps", Late()},
                                            {"executable", support::HostExecutable(), true},
                                            {"direct", Direct(), true}};
  support::check_on_every_road(group, affordable(cases), roads);
}

TEST_CASE("every case of the table equals the oracle on the host, the same bits on every road") {
  for (const support::CaseGroup& group : support::case_table()) {
    check(group.name, group.cases);
  }
}

TEST_CASE("shapes across the borders of the host's tiles equal the oracle") {
  check("tiles", support::full_cross({{5, 7, 3}, {17, 65, 67}, {32, 64, 128}}));
  check("exact tiles", support::exact_cases({{9, 17, 130}, {16, 16, 64}}));
}

}  // namespace
