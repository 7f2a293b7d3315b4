#include "chain_worth.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "chain_support.hpp"

using namespace ai::kernels::chain;

TEST_CASE("a layer takes a node's time and its terms', else that of its bytes or its arithmetic") {
  // 1 multiprocessor at 1 GHz: 115.2 flop/ns reached; 1000 bytes/us of L2.
  const Machine machine{{227 << 10, 255, 16}, 1, 1e9, 1e9};
  const Machine fed{{227 << 10, 255, 16}, 1, 1e9, 1e15};
  const auto us = [](const std::vector<int>& widths, int rows, const Machine& on) {
    return plan_by_plan_us(chain_test::network(widths, ai::ActKind::ReLU, rows), on);
  };
  CHECK(us({4, 4, 4}, 1, machine) == doctest::Approx(2 * 2.1));
  CHECK(us({100, 1, 1}, 2, fed) == doctest::Approx(2.1 + 1.3 + 2.1 + 0.013));
  CHECK(us({1000, 1, 1}, 2, fed) == doctest::Approx(2.1 + 5.5 + 2.1 + 0.013));
  CHECK(us({100, 100, 100}, 1, machine) == doctest::Approx(2 * 4 * (10000 + 200) * 1e-3));
  CHECK(us({100, 100, 100}, 1000, fed) ==
        doctest::Approx(2 * 2.0 * 1000 * 100 * 100 / 115.2 * 1e-3));
  // Alone, with a step for what follows the product: that of a node, or 8 bytes an element of Y.
  CHECK(us({100, 1}, 2, fed) == doctest::Approx(2.1 + 1.3 + 2.1));
  CHECK(us({1, 100}, 1000, machine) == doctest::Approx((4 * (100 + 101000) + 800000) * 1e-3));
}

TEST_CASE("forms far above that are left out; unmeasured, all that are not clearly below it") {
  const Machine machine = chain_test::hopper();
  const Network jet = chain_test::network({16, 64, 32, 32, 5}, ai::ActKind::ReLU, 64);
  const std::vector<Form> all = forms_for(jet, machine, 1000);
  const double steps = plan_by_plan_us(jet, machine);
  const std::vector<Form> measured = worthwhile(jet, all, machine, true);
  const std::vector<Form> sure = worthwhile(jet, all, machine, false);
  CHECK(sure.size() < measured.size());
  CHECK(!sure.empty());
  CHECK(measured.size() < all.size());
  // They stand in the order of the estimate.
  CHECK(estimate_us(jet, all[measured.size() - 1], machine) <= 1.5 * steps);
  CHECK(estimate_us(jet, all[measured.size()], machine) > 1.5 * steps);
  CHECK(estimate_us(jet, all[sure.size() - 1], machine) <= 0.9 * steps);
  CHECK(estimate_us(jet, all[sure.size()], machine) > 0.9 * steps);
  CHECK(name_of(measured.front()) == name_of(all.front()));
}
