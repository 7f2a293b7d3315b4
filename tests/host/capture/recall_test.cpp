// What a capture takes from the tuning file and what it puts there.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "recalled_program.hpp"

namespace ai::test {
namespace {

TEST_CASE("what one capture has measured the next one recalls, without a search or a clock") {
  Recalled r;
  const Executable first = r.capture();
  CHECK(first.nodes()[0].name == "quick");
  CHECK(first.tuning().tasks == 1);
  CHECK(first.tuning().recalled == 0);
  CHECK(first.tuning().measured == 1);
  CHECK(first.tuning().candidates_timed == 3);
  CHECK(first.tuning().heuristic_queries == 1);
  CHECK(first.tuning().seconds > 0);

  r.fake.forget_calls();
  const Executable second = r.capture();
  CHECK(second.nodes()[0].name == "quick");
  CHECK(second.tuning().tasks == 1);
  CHECK(second.tuning().recalled == 1);
  CHECK(second.tuning().measured == 0);
  CHECK(second.tuning().candidates_timed == 0);
  CHECK(second.tuning().heuristic_queries == 0);
  CHECK(r.fake.count("event_record") == 0);
  CHECK(r.fake.count("mem_get_info") == 0);
  CHECK(r.warnings.empty());
}

TEST_CASE("explain says of a recalled choice where it comes from, and what came second") {
  Recalled r({{"slow", 50}, {"quick", 2, Flaw::None, false}, {"plain", 2.5}});
  const std::string first = r.capture().explain();
  CHECK_MESSAGE(has(first, "  * quick  2.10 us\n    plain  2.60 us\n"), first);
  CHECK(r.capture().explain() == "forward Y[3,5] (from the tuning file " + *r.options.tuning_cache +
                                     ": 3 of 3 candidates timed)\n"
                                     "  * quick  2.10 us\n"
                                     "    plain  2.60 us  the runner-up\n");
}

TEST_CASE("a problem that is not in the file is measured beside one that is") {
  Recalled r;
  (void)r.capture();
  r.add(4);
  const Executable both = r.capture();
  CHECK(both.tuning().tasks == 2);
  CHECK(both.tuning().recalled == 1);
  CHECK(both.tuning().measured == 1);
  CHECK(both.tuning().heuristic_queries == 1);
  CHECK(r.capture().tuning().recalled == 2);
}

TEST_CASE("Tuning::Off neither reads nor writes the file, and recalls nothing") {
  Recalled r;
  r.options.tuning = Tuning::Off;
  SUBCASE("there is none") {
    CHECK(r.chosen() == "slow");
    CHECK(!r.has_file());
  }
  SUBCASE("it knows better") {
    r.options.tuning = Tuning::Measure;
    CHECK(r.chosen() == "quick");
    r.options.tuning = Tuning::Off;
    r.backend.asked = 0;
    const Executable off = r.capture();
    CHECK(off.nodes()[0].name == "slow");
    CHECK(off.tuning().tasks == 1);
    CHECK(off.tuning().measured == 0);
    CHECK(off.tuning().candidates_timed == 0);
    CHECK(off.tuning().heuristic_queries == 1);
    CHECK(r.backend.asked == 0);
  }
  SUBCASE("it is damaged") {
    tuning::write_text(*r.options.tuning_cache, "{");
    (void)r.capture();
    CHECK(r.file() == "{");
  }
  CHECK(r.warnings.empty());
}

TEST_CASE("without a file nothing is recalled or kept, and the backend is not asked for versions") {
  Recalled r;
  r.options.tuning_cache = "";
  CHECK(r.chosen() == "quick");
  CHECK(r.capture().tuning().measured == 1);
  CHECK(r.backend.asked == 0);
}

TEST_CASE("the file of captures that name none is that of tuning_cache_path") {
  Recalled r;
  const std::string path = *r.options.tuning_cache;
  r.options.tuning_cache.reset();
  (void)r.capture();
  CHECK(!tuning::exists(path));
  REQUIRE(set_tuning_cache_path(path).ok());
  (void)r.capture();
  CHECK(tuning::exists(path));
  CHECK(r.capture().tuning().recalled == 1);
  REQUIRE(set_tuning_cache_path(std::nullopt).ok());
}

TEST_CASE("Tuning::Remeasure recalls nothing, and replaces what the file knows") {
  Recalled r;
  CHECK(r.chosen() == "quick");
  r.backend.ways = {{"slow", 1}, {"quick", 2}, {"plain", 4}};
  CHECK(r.chosen() == "quick");
  r.options.tuning = Tuning::Remeasure;
  r.backend.asked = 0;
  const Executable again = r.capture();
  CHECK(again.nodes()[0].name == "slow");
  CHECK(again.tuning().recalled == 0);
  CHECK(again.tuning().measured == 1);
  CHECK(r.backend.asked == 0);
  r.options.tuning = Tuning::Measure;
  CHECK(r.capture().tuning().recalled == 1);
  CHECK(r.chosen() == "slow");
}

TEST_CASE("what a budget cut short is recalled, but not where there is more time now") {
  Recalled r({{"slow", 5e3}, {"slower", 6e3}, {"slowest", 6.5e3}, {"quick", 1}, {"plain", 7e3}});
  CHECK(r.chosen(0.09) == "slow");
  const Executable same = r.capture(0.09);
  CHECK(same.tuning().recalled == 1);
  CHECK_MESSAGE(has(same.explain(), "candidates timed before its 0.09 s ran out)"), same.explain());
  CHECK(r.capture(0.05).tuning().recalled == 1);
  const Executable more = r.capture(10);
  CHECK(more.tuning().recalled == 0);
  CHECK(more.nodes()[0].name == "quick");
  CHECK(r.capture(100).tuning().recalled == 1);
}

TEST_CASE("what ran out of its share of a budget is recalled unless the share is clearly larger") {
  Recalled r({{"slow", 5e3}, {"slower", 6e3}, {"quick", 1}, {"plain", 7e3}});
  for (const std::int64_t m : {3, 4, 5, 6}) r.add(m);
  const double budget_s = 4 * 0.09;
  CHECK(r.capture(budget_s).tuning().measured == 4);
  CHECK(r.capture(budget_s).tuning().recalled == 4);
  CHECK(r.capture(1.4 * budget_s).tuning().recalled == 4);
  CHECK(r.capture(0.5 * budget_s).tuning().recalled == 4);

  r.program = Program();
  r.layers.clear();
  r.add(3);
  CHECK(r.capture(0.09).tuning().recalled == 1);
  const Executable alone = r.capture(budget_s);  // four times as long for it
  CHECK(alone.tuning().measured == 1);
  CHECK(r.capture(budget_s).tuning().recalled == 1);
}

TEST_CASE("a recalled candidate that cannot be prepared: others are measured and stored") {
  Recalled r;
  CHECK(r.chosen() == "quick");
  r.backend.ways[1].flaw = Flaw::FailsToPrepare;
  const Executable second = r.capture();
  CHECK(second.nodes()[0].name == "plain");
  CHECK(second.tuning().recalled == 0);
  CHECK(second.tuning().measured == 1);
  REQUIRE(r.warnings.size() == 1);
  CHECK_MESSAGE(has(r.warnings[0], "no such module"), r.warnings[0]);
  CHECK_MESSAGE(has(r.warnings[0], *r.options.tuning_cache), r.warnings[0]);
  const Executable third = r.capture();
  CHECK(third.nodes()[0].name == "plain");
  CHECK(third.tuning().recalled == 1);
  CHECK(r.warnings.size() == 1);
}

TEST_CASE("a recipe that the backend cannot use: others are measured and stored") {
  Recalled r;
  CHECK(r.chosen() == "quick");
  r.backend.forgotten = "quick";
  r.backend.ways[2].takes_us = 1;
  const Executable second = r.capture();
  CHECK(second.tuning().recalled == 0);
  CHECK(second.nodes()[0].name == "plain");
  REQUIRE(r.warnings.size() == 1);
  CHECK_MESSAGE(has(r.warnings[0], "forward Y[3,5]"), r.warnings[0]);
  CHECK(r.capture().tuning().recalled == 1);
  CHECK(r.warnings.size() == 1);
}

TEST_CASE("what is quick and wrong is never stored") {
  Recalled r({{"wrong", 1, Flaw::LosesNaN, false}, {"quick", 2, Flaw::None, false}, {"plain", 4}});
  CHECK(r.chosen() == "quick");
  CHECK(!has(r.file(), "wrong"));
  CHECK(r.chosen() == "quick");
  CHECK(r.capture().tuning().recalled == 1);
}

TEST_CASE("what could not be compared with the fallback serves one capture and is not stored") {
  Recalled r({{"good", 5}, {"plain", 2, Flaw::FailsToEnqueue}});
  CHECK(r.chosen() == "good");
  CHECK(!r.has_file());
  r.backend.ways = {{"good", 5, Flaw::WrongValue}, {"plain", 6}};
  CHECK(r.chosen() == "plain");
  CHECK(r.has_file());
}

TEST_CASE("what has no recipe, was not timed or had no rival is not stored") {
  Recalled r;
  SUBCASE("no recipe") {
    r.backend.without_recipe = "quick";
    CHECK(r.chosen() == "quick");
  }
  SUBCASE("no time") {
    CHECK(r.chosen(0) == "slow");
  }
  SUBCASE("no rival") {
    r.backend.ways = {{"plain", 4}};
    const Executable only = r.capture();
    CHECK(only.tuning().tasks == 0);
    CHECK(only.tuning().measured == 0);
  }
  CHECK(!r.has_file());
}

TEST_CASE("an item that repeats another is neither measured nor searched for again") {
  for (const Tuning tuning : {Tuning::Measure, Tuning::Off, Tuning::Remeasure}) {
    Recalled r;
    r.options.tuning = tuning;
    for (int i = 0; i < 3; ++i) r.add();
    r.add(4);
    r.add();
    const Executable made = r.capture();
    CHECK(made.nodes().size() == 5);
    for (const Node& node : made.nodes()) {
      CHECK(node.name == (tuning == Tuning::Off ? "slow" : "quick"));
    }
    CHECK(made.tuning().tasks == 5);
    CHECK(made.tuning().measured == (tuning == Tuning::Off ? 0 : 2));
    CHECK(made.tuning().heuristic_queries == 2);
    CHECK_MESSAGE(has(made.explain(), "(the same problem as forward Y[3,5] above)"),
                  made.explain());
    if (tuning == Tuning::Off) continue;
    r.options.tuning = Tuning::Measure;
    const Executable again = r.capture();
    CHECK(again.tuning().recalled == 2);
    CHECK(again.tuning().tasks == 5);
    CHECK(again.tuning().heuristic_queries == 0);
    CHECK(again.nodes().size() == 5);
  }
}

TEST_CASE("a repeated item whose candidate cannot be made alone is searched for") {
  Recalled r;
  r.backend.without_recipe = "quick";
  for (int i = 0; i < 3; ++i) r.add();
  const Executable made = r.capture();
  for (const Node& node : made.nodes()) CHECK(node.name == "quick");
  CHECK(made.tuning().heuristic_queries == 3);
  CHECK(made.tuning().measured == 1);
}

TEST_CASE("a repeated item whose candidate cannot be prepared once more gets the first that can") {
  Recalled r({{"slow", 5, Flaw::FailsToPrepare}, {"quick", 2}, {"plain", 4}});
  r.backend.without_recipe = "quick";
  r.backend.fails_again = "quick";
  r.add();
  r.add();
  const Executable made = r.capture();
  CHECK(made.nodes()[0].name == "quick");
  CHECK(made.nodes()[1].name == "plain");
  CHECK_MESSAGE(has(made.explain(), "no such module"), made.explain());
}

TEST_CASE("a damaged file is told of once, and is no hindrance") {
  Recalled r;
  const std::string damaged = R"({"format": "graph_executor tuning", "version": )";
  tuning::write_text(*r.options.tuning_cache, damaged);
  SUBCASE("a handler sees it") {
    CHECK(r.chosen() == "quick");
    CHECK(r.warnings.size() == 1);
    CHECK(r.chosen() == "quick");
    CHECK(r.warnings.size() == 1);
  }
  SUBCASE("a handler throws") {
    r.options.on_tuning_warning = [](const Status&) { throw std::runtime_error("no"); };
    CHECK(r.chosen() == "quick");
  }
  SUBCASE("there is no handler") {
    r.options.on_tuning_warning = {};
    CHECK(r.chosen() == "quick");
  }
}

TEST_CASE("a file that is none of ours is told of to the first handler there is") {
  Recalled r;
  tuning::write_text(*r.options.tuning_cache, R"({"mine": 1})");
  const TuningWarningHandler handler = std::exchange(r.options.on_tuning_warning, {});
  CHECK(r.chosen() == "quick");
  CHECK(r.chosen() == "quick");
  r.options.on_tuning_warning = handler;
  CHECK(r.chosen() == "quick");
  CHECK(r.warnings.size() == 1);
  CHECK(r.chosen() == "quick");
  CHECK(r.warnings.size() == 1);
}

TEST_CASE("a file that cannot be written is told of, and this process remembers all the same") {
  Recalled r;
  tuning::write_text(r.folder / "file", "");
  r.options.tuning_cache = r.folder / "file/tuning.json";
  CHECK(r.chosen() == "quick");
  CHECK(!r.warnings.empty());
  CHECK(r.capture().tuning().recalled == 1);
}

TEST_CASE("a clone has chosen nothing; a rebind that plans anew keeps what the capture took") {
  Recalled r;
  Executable made = r.capture();
  const Result<Executable> clone = made.clone();
  REQUIRE(clone.ok());
  CHECK(clone->tuning().tasks == 0);
  CHECK(clone->tuning().seconds == 0);
  auto* const elsewhere =
      static_cast<std::byte*>(r.fake.operand(3 * 7 * sizeof(float) + 4)) + 4;  // less aligned
  REQUIRE(made.rebind({{r.layers[0].call.A.data, elsewhere}}).ok());
  CHECK_MESSAGE(has(made.explain(), "taken anew"), made.explain());
  CHECK(made.tuning().measured == 1);
}

}  // namespace
}  // namespace ai::test
