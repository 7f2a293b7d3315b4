// Checks that are not done when the time of their task is over.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tuned_program.hpp"

namespace ai::test {
namespace {

// Of two problems the first may take 0.4 of the budget, and its checks 0.2 more, which are kept for
// the program as a whole. A program of one problem keeps nothing.
constexpr double kBudgetS = 0.3;
constexpr double kLateUs = 0.179e6;  // what is loaded so long ends between the two

constexpr char kLate[] = "checked beyond its share of the tuning budget";
constexpr char kUnchecked[] = "not checked: the tuning budget";

TEST_CASE("what was timed when the deadline passed is still checked and taken") {
  FakeCuda fake;
  SUBCASE("in the time of the program as a whole") {
    Tuned tuned(fake, {{"quick", 10, Flaw::None, false},
                       {"second", 11, Flaw::None, false},
                       {"third", 12, Flaw::None, false},
                       {"loads", 13, Flaw::None, false, kLateUs},
                       {"plain", 20}});
    tuned.add_problem();
    const std::string text = tuned.capture(true, kBudgetS);  // too little is left to measure again
    CHECK_MESSAGE(tuned.chosen() == "quick", text);
    CHECK_MESSAGE(has(text, kLate), text);
    CHECK(tuned.took_s < kBudgetS);
  }
  SUBCASE("one, where the whole budget is over") {
    Tuned tuned(fake, {{"quick", 10, Flaw::None, false},
                       {"second", 11, Flaw::None, false},
                       {"loads", 12, Flaw::None, false, 0.35e6},
                       {"plain", 20}});
    const std::string text = tuned.capture(true, kBudgetS);
    CHECK_MESSAGE(tuned.chosen() == "quick", text);
    CHECK_MESSAGE(has(text, kLate), text);
    CHECK_MESSAGE(has(text, kUnchecked), text);  // the second
    CHECK(tuned.took_s < 0.35 + 0.01);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("a check that is nearly done when the budget is over is ended, another is not") {
  FakeCuda fake;
  const auto ways = [](double loads_us) {
    return std::vector<Way>{{"quick", 10e3, Flaw::None, false},
                            {"loads", 12e3, Flaw::None, false, loads_us},
                            {"plain", 20e3}};
  };
  // Both are looked at, and one run of the fallback is there to compare with, 82 ms and what is
  // loaded after the begin. Five more runs are thought to take 100 ms, a quarter of the time is 75.
  SUBCASE("nearly") {
    Tuned tuned(fake, ways(0.18e6));
    const std::string text = tuned.capture(true, kBudgetS);
    CHECK_MESSAGE(tuned.chosen() == "quick", text);
    CHECK_MESSAGE(has(text, kLate), text);
    CHECK(tuned.took_s > kBudgetS);
    CHECK(tuned.took_s < 1.25 * kBudgetS);
  }
  SUBCASE("another") {
    Tuned tuned(fake, ways(0.23e6));
    const std::string text = tuned.capture(true, kBudgetS);
    CHECK_MESSAGE(tuned.chosen() == "plain", text);
    CHECK_MESSAGE(has(text, kUnchecked), text);
    CHECK(tuned.took_s < 0.082 + 0.23 + 0.001);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("after one that is wrong the next is checked beyond the deadline, within the budget") {
  FakeCuda fake;
  const auto ways = [](double loads_us) {
    return std::vector<Way>{
        {"wrong", 8, Flaw::LosesInf, false},        {"quick", 10, Flaw::None, false},
        {"second", 10.5, Flaw::None, false},        {"third", 11, Flaw::None, false},
        {"loads", 12, Flaw::None, false, loads_us}, {"plain", 20}};
  };
  SUBCASE("within") {
    Tuned tuned(fake, ways(kLateUs));
    tuned.add_problem();
    const std::string text = tuned.capture(true, kBudgetS);
    CHECK_MESSAGE(tuned.chosen() == "quick", text);
    CHECK_MESSAGE(has(text, "its results are wrong"), text);
    CHECK(tuned.took_s < kBudgetS);
  }
  SUBCASE("not beyond it") {
    Tuned tuned(fake, ways(0.35e6));
    const std::string text = tuned.capture(true, kBudgetS);
    CHECK_MESSAGE(tuned.chosen() == "plain", text);
    CHECK_MESSAGE(has(text, "its results are wrong"), text);
    CHECK_MESSAGE(has(text, kUnchecked), text);
    CHECK_MESSAGE(!has(text, kLate), text);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("no check is late for the sake of what is hardly quicker than the fallback, or slower") {
  FakeCuda fake;
  for (const double us : {19.6, 30.0}) {
    CAPTURE(us);
    Tuned tuned(fake, {{"other", us, Flaw::None, false},
                       {"loads", 25, Flaw::None, false, kLateUs},
                       {"plain", 20}});
    tuned.add_problem();
    const std::string text = tuned.capture(true, kBudgetS);
    CHECK_MESSAGE(tuned.chosen() == "plain", text);
    CHECK_MESSAGE(has(text, kUnchecked), text);
    CHECK_MESSAGE(!has(text, kLate), text);
  }
  CHECK(settled(fake) == "");
}

/// Twenty quick ways that are wrong, and a slow one.
struct ManyWrong {
  ManyWrong() : names(20) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i] = "wrong" + std::to_string(i);
      ways.push_back({names[i].c_str(), 10e3, Flaw::LosesInf, false});
    }
    ways.push_back({"plain", 20e3});
  }
  std::vector<std::string> names;
  std::vector<Way> ways;
};

TEST_CASE("wrong ones, however many, cost no more than the budget and a quarter of a share") {
  FakeCuda fake;
  const ManyWrong wrong;
  Tuned tuned(fake, wrong.ways);
  tuned.add_problem();
  const std::string text = tuned.capture(true, 1.0);
  CHECK_MESSAGE(tuned.chosen() == "plain", text);
  CHECK_MESSAGE(has(text, "its results are wrong"), text);
  CHECK_MESSAGE(has(text, kUnchecked), text);
  CHECK(tuned.took_s < 1.0 + 0.1);
  CHECK(settled(fake) == "");
}

TEST_CASE("late checks take nothing from the tasks that follow") {
  FakeCuda fake;
  const ManyWrong wrong;
  Tuned tuned(fake, wrong.ways);
  tuned.add_problem();
  double began_s = 0;
  detail::TunerSettings tuner = settings(fake, true, 1.0);
  std::size_t begun = 0;
  tuner.on_progress = [&](const TuningProgress& at) {
    if (at.candidates_done == 0 && ++begun == 2) began_s = at.elapsed_s;
  };
  const Result<Executable> made =
      detail::capture_with(FakeCuda::api(), tuned.backend, tuned.program, {}, tuner);
  REQUIRE(made.ok());
  CHECK(began_s > 0.5);  // late checks have used the time that was kept
  CHECK(began_s < 0.6 + 0.1);
}

TEST_CASE(
    "a task that fell back though others were quicker is measured again in what little is left") {
  FakeCuda fake;
  Tuned tuned(fake, {{"wrong", 8, Flaw::LosesInf, false},
                     {"quick", 10, Flaw::None, false},
                     {"loads", 12, Flaw::None, false, 0.7e6},
                     {"plain", 20}});
  tuned.add_problem();
  const std::string text = tuned.capture(true, 1.0);
  REQUIRE(tuned.nodes.size() == 2);
  CHECK_MESSAGE(tuned.nodes[0].name == "quick", text);
  CHECK_MESSAGE(tuned.nodes[1].name == "quick", text);
  CHECK_MESSAGE(!has(text, kUnchecked), text);
  CHECK(tuned.took_s < 1.0);
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
