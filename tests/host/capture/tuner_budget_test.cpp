#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "capture/stopwatch.hpp"
#include "tuned_program.hpp"

namespace ai::test {
namespace {

TEST_CASE("a budget of nothing measures nothing and keeps table order") {
  FakeCuda fake;
  Tuned tuned(fake, {{"first", 5}, {"second", 2}, {"plain", 4}});
  const std::string text = tuned.capture(true, 0.0);
  CHECK_MESSAGE(tuned.chosen() == "first", text);
  CHECK_MESSAGE(has(text, "not measured: the tuning budget"), text);
  CHECK(fake.count("event_record") == 0);
  CHECK(settled(fake) == "");
}

TEST_CASE("candidates that the budget does not reach stand behind the measured ones") {
  FakeCuda fake;
  // Looking at one of these takes 5 ms of the device's clock, checking it 30 ms.
  Tuned tuned(fake,
              {{"slow", 5e3}, {"slower", 6e3}, {"slowest", 6.5e3}, {"quick", 1}, {"plain", 7e3}});
  const std::string text = tuned.capture(true, 0.09);
  CHECK_MESSAGE(tuned.chosen() == "slow", text);
  CHECK_MESSAGE(has(text, "quick    not measured: the tuning budget"), text);
  CHECK(fake.seconds() < 0.11);
  CHECK(settled(fake) == "");
}

TEST_CASE("a short candidate is run 300 times in chains of ten to be timed") {
  FakeCuda fake;
  Tuned tuned(fake, {{"a", 10}, {"b", 11}, {"c", 12}, {"d", 13}, {"plain", 14}});
  (void)tuned.capture(true);
  // Two to see how long it takes, twice ten in a graph; five times six replays.
  CHECK(tuned.runs["d"] == 2 + 2 * 10 + 5 * 6 * 10);
  // Three for its check, and fifteen turns of the final round.
  CHECK(tuned.runs["a"] == tuned.runs["d"] + 3 + 15 * 6 * 10 + 1);  // and the launch
  CHECK(settled(fake) == "");
}

TEST_CASE("the longer an execution takes, the fewer of them make a measurement") {
  const auto is = [](double us, int copies, int replays, int repetitions, int final_repetitions) {
    const detail::Effort effort = detail::effort_for(us);
    CAPTURE(us);
    CHECK(effort.copies == copies);
    CHECK(effort.replays == replays);
    CHECK(effort.repetitions == repetitions);
    CHECK(effort.final_repetitions == final_repetitions);
  };
  is(0, 10, 5, 5, 15);
  is(2, 10, 5, 5, 15);
  is(100, 10, 5, 5, 15);
  is(300, 3, 5, 5, 15);
  is(1000, 1, 5, 5, 15);
  is(2400, 1, 2, 5, 15);
  is(6000, 1, 1, 3, 3);
  is(1e12, 1, 1, 3, 3);
}

TEST_CASE("two candidates of 176 ms are measured within a budget of 2 s") {
  FakeCuda fake;
  Tuned tuned(fake, {{"slow", 176e3}, {"plain", 170e3}});
  const std::string text = tuned.capture(true, 2.0);
  CHECK_MESSAGE(tuned.chosen() == "plain", text);
  CHECK_MESSAGE(has(text, "slow   176001."), text);
  CHECK_MESSAGE(has(text, "timed 2 of 3 times: the tuning budget"), text);
  CHECK(tuned.took_s < 2.0 + 0.18);  // what was under way was waited for
  CHECK(settled(fake) == "");
}

TEST_CASE("where the budget is for little more than the fallback, that is taken") {
  FakeCuda fake;
  Tuned tuned(fake, {{"slow", 176e3}, {"slower", 200e3}, {"quick", 10}, {"plain", 176e3}});
  const std::string text = tuned.capture(true, 0.8);
  CHECK_MESSAGE(tuned.chosen() == "plain", text);
  CHECK_MESSAGE(has(text, "plain   176000.00 us  timed 1 of 3 times: the tuning budget"), text);
  for (const char* name : {"slow  ", "slower", "quick "}) {
    CHECK_MESSAGE(has(text, std::string(name) + "  not measured: the tuning budget"), text);
  }
  CHECK(tuned.took_s < 0.8 + 0.18);
  CHECK(settled(fake) == "");
}

TEST_CASE("a candidate whose check does not end with the budget is not taken, however quick") {
  FakeCuda fake;
  for (const bool trusted : {true, false}) {
    Tuned tuned(fake, {{"unchecked", 140e3, Flaw::None, trusted}, {"plain", 176e3}});
    const std::string text = tuned.capture(true, 0.9);
    CHECK_MESSAGE(tuned.chosen() == "plain", text);
    CHECK_MESSAGE(has(text, "unchecked  140000.00 us  "), text);
    CHECK_MESSAGE(has(text, "not checked: the tuning budget"), text);
    CHECK(tuned.took_s < 0.9 + 0.18);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("time is kept for the check of the quickest") {
  FakeCuda fake;
  std::vector<std::string> names(40);
  std::vector<Way> ways{{"quick", 30e3, Flaw::None, false}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = "slow" + std::to_string(i);
    ways.push_back({names[i].c_str(), 35e3, Flaw::None, false});
  }
  ways.push_back({"plain", 40e3});
  Tuned tuned(fake, ways);
  const std::string text = tuned.capture(true, 1.0);
  CHECK_MESSAGE(tuned.chosen() == "quick", text);
  CHECK_MESSAGE(has(text, "not measured: the tuning budget"), text);
  CHECK(tuned.took_s < 1.0 + 0.05);
  CHECK(settled(fake) == "");
}

TEST_CASE("a first task that was cut short while all was loaded is measured whole at the end") {
  FakeCuda fake;
  constexpr double kLoads = 40e3;
  Tuned tuned(fake, {{"a", 14, Flaw::None, false, kLoads},
                     {"b", 13, Flaw::None, false, kLoads},
                     {"c", 12, Flaw::None, false, kLoads},
                     {"quick", 10, Flaw::None, false, kLoads},
                     {"plain", 15, Flaw::None, true, kLoads}});
  tuned.add_problem();
  SUBCASE("what is left is enough") {
    const std::string text = tuned.capture(true, 0.42);
    REQUIRE(tuned.nodes.size() == 2);
    CHECK_MESSAGE(tuned.nodes[0].name == "quick", text);
    CHECK_MESSAGE(tuned.nodes[1].name == "quick", text);
    CHECK_MESSAGE(!has(text, "the tuning budget"), text);
    CHECK(tuned.took_s < 0.42);
  }
  SUBCASE("too little is left") {
    const std::string text = tuned.capture(true, 0.34);
    REQUIRE(tuned.nodes.size() == 2);
    CHECK_MESSAGE(tuned.nodes[0].name != "quick", text);
    CHECK_MESSAGE(tuned.nodes[1].name == "quick", text);
    CHECK_MESSAGE(has(text, "not measured: the tuning budget"), text);
    CHECK(tuned.took_s < 0.35);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("what a first measurement dropped stays dropped in the second") {
  FakeCuda fake;
  constexpr double kLoads = 40e3;
  Tuned tuned(fake, {{"fails", 5, Flaw::None, false, kLoads},
                     {"b", 13, Flaw::None, false, kLoads},
                     {"c", 12, Flaw::None, false, kLoads},
                     {"quick", 10, Flaw::None, false, kLoads},
                     {"plain", 15, Flaw::None, true, kLoads}});
  tuned.add_problem();
  // The fallback takes thirteen: two at first sight, five to warm up and six to look again.
  fake.fail("graph_launch", 14, cudaErrorUnknown);
  const std::string text = tuned.capture(true, 0.42);
  REQUIRE(tuned.nodes.size() == 2);
  CHECK_MESSAGE(tuned.nodes[0].name == "quick", text);
  CHECK_MESSAGE(tuned.nodes[1].name == "fails", text);
  CHECK_MESSAGE(!has(text, "the tuning budget"), text);
  CHECK_MESSAGE(has(text, "fails  dropped: CudaError: cudaGraphLaunch failed"), text);
  CHECK(settled(fake) == "");
}

TEST_CASE("long candidates that are near the best are looked at once, for half of the time") {
  FakeCuda fake;
  std::vector<std::string> names(60);
  std::vector<Way> ways{{"quick", 2e3, Flaw::None, false}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = "way" + std::to_string(i);
    ways.push_back({names[i].c_str(), 2.4e3, Flaw::None, false});
  }
  ways.push_back({"plain", 2.5e3});
  Tuned tuned(fake, ways);
  const std::string text = tuned.capture(true, 0.2);
  CHECK_MESSAGE(tuned.chosen() == "quick", text);
  CHECK_MESSAGE(has(text, "way59  not measured: the tuning budget"), text);
  CHECK(tuned.runs["way20"] == 1);
  CHECK(tuned.took_s < 0.2 + 0.003);
  CHECK(settled(fake) == "");
}

TEST_CASE("an untrusted candidate is checked before it is taken, even where nothing is measured") {
  FakeCuda fake;
  SUBCASE("right") {
    Tuned tuned(fake, {{"doubtful", 176e3, Flaw::None, false}, {"plain", 176e3}});
    const std::string text = tuned.capture(true, 0);
    CHECK_MESSAGE(tuned.chosen() == "doubtful", text);
    CHECK_MESSAGE(has(text, "not measured: the tuning budget"), text);
    CHECK(tuned.runs["doubtful"] == 3 + 1);
    CHECK(tuned.runs["plain"] == 3);
  }
  SUBCASE("wrong") {
    Tuned tuned(fake, {{"doubtful", 176e3, Flaw::LosesInf, false}, {"plain", 176e3}});
    const std::string text = tuned.capture(true, 0);
    CHECK_MESSAGE(tuned.chosen() == "plain", text);
    CHECK_MESSAGE(has(text, "its results are wrong"), text);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("warming up ends with the budget") {
  FakeCuda fake;
  Tuned tuned(fake, {{"first", 5}, {"plain", 5}});
  detail::TunerSettings tuner = settings(fake, true, 0.01);
  tuner.warm_s = 1.0;
  const Result<Executable> made =
      detail::capture_with(FakeCuda::api(), tuned.backend, tuned.program, {}, tuner);
  REQUIRE(made.ok());
  CHECK(fake.seconds() < 0.011);
  CHECK_MESSAGE(has(made->explain(), "first  not measured: the tuning budget"), made->explain());
}

}  // namespace
}  // namespace ai::test
