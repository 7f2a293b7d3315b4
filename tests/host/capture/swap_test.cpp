// Candidates that are not the quickest alone and make the program quicker all the same.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "recalled_program.hpp"

namespace ai::test {
namespace {

struct Swapped : Recalled {
  explicit Swapped(double second_us = 5.5, double in_company_us = 2)
      : Recalled({{"slow", 9}, {"second", second_us}, {"quick", 5}, {"plain", 9}}) {
    backend.sociable = "second";
    backend.in_company_us = in_company_us;
  }
  /// Y2 = (A B) B2: one step waits for the other.
  void add_chain() {
    add();
    Layer next(fake, 3, 5, 5);
    next.call.A = layers.front().call.Y;
    following.push_back(next);
    REQUIRE(program.add(following.back().plan()).ok());
  }
  std::vector<Layer> following;
};

std::vector<std::string> names(const Executable& executable) {
  std::vector<std::string> all;
  for (const Node& node : executable.nodes()) all.push_back(node.name);
  return all;
}

using Names = std::vector<std::string>;

TEST_CASE("a runner-up that makes the whole program quicker is taken, stored and recalled") {
  Swapped r;
  r.add(3);
  r.add(4);
  const Executable first = r.capture();
  CHECK(names(first) == Names{"second", "second"});
  CHECK(first.tuning().measured == 2);
  CHECK(first.tuning().candidates_timed == 8);
  CHECK_MESSAGE(has(first.explain(),
                    "  * second  5.60 us  taken since the whole program needs 8.00 us with it, "
                    "11.00 us without\n    quick   5.10 us\n"),
                first.explain());
  CHECK_MESSAGE(has(first.explain(), "needs 5.00 us with it, 8.00 us without"), first.explain());
  CHECK_MESSAGE(has(first.explain(), "order: unlimited 5.00 us, "), first.explain());

  r.fake.forget_calls();
  const Executable second = r.capture();
  CHECK(names(second) == names(first));
  CHECK(second.dot() == first.dot());
  CHECK(second.tuning().candidates_timed == 0);
  CHECK(second.tuning().orders_timed == 0);
  CHECK(r.fake.count("event_record") == 0);
  CHECK_MESSAGE(has(second.explain(), "  * second  5.60 us\n    quick   5.10 us  the runner-up\n"),
                second.explain());
}

TEST_CASE("also in a program whose steps wait for each other, which has no order to choose") {
  Swapped r;
  r.add_chain();
  const Executable made = r.capture();
  CHECK(names(made) == Names{"second", "second"});
  CHECK(made.tuning().orders_timed == 0);
  CHECK(!has(made.explain(), "order:"));
  CHECK(r.following[0].y() == 5 * 14 * 2.0F);
}

TEST_CASE("where a problem is posed several times, all of its tasks swap together") {
  Swapped r;
  r.add();
  r.add();
  r.add();
  SUBCASE("made again by their recipes") {}
  SUBCASE("searched for again") {
    r.backend.without_recipe = "quick";
  }
  const Executable made = r.capture();
  CHECK(names(made) == Names{"second", "second", "second"});
  CHECK_MESSAGE(has(made.explain(), "needs 7.00 us with it, 16.00 us without"), made.explain());
  r.fake.forget_calls();
  CHECK(names(r.capture()) == Names{"second", "second", "second"});
  CHECK(r.fake.count("event_record") == 0);
}

TEST_CASE(
    "tasks of one item that share storage still do where one of them swaps, and the next "
    "start makes the same graph without a clock") {
  Swapped r;
  r.backend.staged = true;
  for (int i = 0; i < 3; ++i) r.add();
  r.add(4);
  const Executable first = r.capture();  // holds what it computes against what is right
  CHECK_MESSAGE(has(first.explain(), "taken since the whole program"), first.explain());
  CHECK_MESSAGE(has(first.explain(), "order: unlimited"), first.explain());
  CHECK(first.tuning().orders_timed > 1);
  const Executable second = r.capture();
  CHECK(second.tuning().orders_timed == 0);
  CHECK(second.tuning().candidates_timed == 0);
  CHECK(second.dot() == first.dot());
}

TEST_CASE("a runner-up that cannot be had everywhere, or not be kept, is left alone") {
  Swapped r;
  SUBCASE("had") {
    r.backend.only_once = "second";
  }
  SUBCASE("kept") {
    r.backend.without_recipe = "second";
  }
  r.add();
  r.add();
  const Executable made = r.capture();
  CHECK(names(made) == Names{"quick", "quick"});
  CHECK(!has(made.explain(), "whole program"));
}

TEST_CASE("the quickest stays where its runner-up is far behind, or hardly better in the program") {
  double second_us = 5.5;
  double in_company_us = 4.95;  // 10.95 us of 11
  SUBCASE("hardly better") {}
  SUBCASE("no better") {
    in_company_us = 5.5;
  }
  SUBCASE("far behind") {
    second_us = 6.5;
    in_company_us = 1;
  }
  Swapped r(second_us, in_company_us);
  r.add(3);
  r.add(4);
  const Executable made = r.capture();
  CHECK(names(made) == Names{"quick", "quick"});
  CHECK(!has(made.explain(), "whole program"));
  CHECK(names(r.capture()) == Names{"quick", "quick"});
}

TEST_CASE("a runner-up that repeats a problem and is not taken is not spoken of there") {
  Swapped r(5.5, 5.5);
  r.add();
  r.add();
  const std::string text = r.capture().explain();
  const std::size_t repeat = text.find("the same problem as");
  REQUIRE(repeat != std::string::npos);
  CHECK_MESSAGE(text.find("second", repeat) == std::string::npos, text);
}

TEST_CASE("a wrong runner-up is not tried, however quick it is in company") {
  Swapped r;
  r.backend.ways[1].flaw = Flaw::LosesInf;
  r.backend.ways[1].trusted = false;
  r.add(3);
  r.add(4);
  CHECK(names(r.capture()) == Names{"quick", "quick"});
}

TEST_CASE("one problem alone in a program is not timed again as a whole") {
  Swapped r;
  r.add();
  r.fake.forget_calls();
  CHECK(names(r.capture()) == Names{"quick"});
  CHECK(r.fake.count("mem_get_info") == 1);
}

TEST_CASE("a failure while swaps are tried leaves the order and the candidates as they were") {
  Swapped r;
  r.add(3);
  r.add(4);
  int whole = 0;
  r.fake.before_call = [&](const std::string& function) {
    // The graphs of two orders, then the first with a swap.
    if (function == "graph_upload" && r.fake.count("mem_get_info") == 2 && ++whole == 3) {
      r.fake.fail("graph_upload", 1, cudaErrorUnknown);
    }
  };
  Result<Executable> made = detail::capture_with(FakeCuda::api(), r.backend, r.program, r.options,
                                                 settings(r.fake, true));
  r.fake.before_call = {};
  REQUIRE_MESSAGE(made.ok(), made.status().to_string());
  CHECK(names(*made) == Names{"quick", "quick"});
  CHECK_MESSAGE(has(made->explain(), "order: unlimited 11.00 us, "), made->explain());
  CHECK(r.fake.last_error == cudaSuccess);
}

}  // namespace
}  // namespace ai::test
