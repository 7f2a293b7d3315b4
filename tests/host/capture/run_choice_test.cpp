#include <doctest/doctest.h>

#include <cmath>

#include "fused_program.hpp"

using ai::test::FusedProgram;
using ai::test::has;
using ai::test::names;
using Names = std::vector<std::string>;

namespace {

/// Three layers through two temporaries.
struct Chain : FusedProgram {
  Chain() {
    add(4, true);
    add(5, true);
    add(2);
  }
  void check_result(ai::Executable& executable) {
    REQUIRE(executable.launch(nullptr).ok());
    CHECK(values(layers.back().call.Y) == expected(calls()));
  }
};

}  // namespace

TEST_CASE("layers that follow each other become one node where that is quicker") {
  Chain chain;
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"chain/1"});
  CHECK(executable.workspace_bytes() == 0);  // no temporary is left
  chain.check_result(executable);
  const std::string text = executable.explain();
  INFO(text);
  CHECK(has(text, "chain of 3"));
  CHECK(has(text, "* chain/1  2.10 us"));
  CHECK(has(text, "layers   12.10 us"));
  CHECK(executable.tuning().kernels_compiled == 2);
  CHECK(executable.tuning().compile_s == 0.5);
  CHECK(chain.backend.most == std::vector<std::size_t>{8});
  CHECK(chain.backend.folders == Names{chain.folder / "kernels"});
  CHECK(chain.warnings.empty());
}

TEST_CASE("and plan by plan where that is not, or wrong") {
  Chain chain;
  std::string why = "12.60 us";
  SUBCASE("slower") {
    chain.backend.fused = {{"chain/0", 12.5}};
  }
  SUBCASE("wrong") {
    chain.backend.fused = {{"chain/0", 1, ai::test::Flaw::WrongValue}};
    why = "its results are wrong";
  }
  SUBCASE("not to be loaded") {
    chain.backend.fused = {{"chain/0", 1, ai::test::Flaw::FailsToPrepare}};
    why = "no module";
  }
  SUBCASE("without a way") {
    chain.backend.reason = "there is no compiler";
    why = "does not apply: there is no compiler";
  }
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"plain", "plain", "plain"});
  chain.check_result(executable);
  const std::string text = executable.explain();
  INFO(text);
  CHECK(has(text, "chain of 3"));
  CHECK(has(text, "* layers"));
  CHECK(has(text, why));
}

TEST_CASE("a Y in user memory is written, and compared") {
  Chain chain;
  chain.layers.clear();
  chain.program = {};
  chain.add(4);
  chain.add(5, true);
  chain.add(2);
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"chain/1"});
  chain.check_result(executable);
  CHECK(FusedProgram::values(chain.layers[0].call.Y) ==
        FusedProgram::expected({chain.layers[0].call}));
}

TEST_CASE("what there was no time to measure is not taken for its estimate") {
  Chain chain;
  ai::Executable executable = chain.capture(0);
  CHECK(names(executable) == Names{"plain", "plain", "plain"});
  CHECK(executable.tuning().candidates_timed == 0);
  CHECK(has(executable.explain(), "* layers"));
  chain.check_result(executable);
  // Nor is it kept.
  CHECK(names(chain.capture()) == Names{"chain/1"});
}

TEST_CASE("a check is of values that do not grow from layer to layer") {
  Chain chain;
  (void)chain.capture();
  CHECK(chain.backend.largest > 0.5F);
  CHECK(chain.backend.largest <= std::sqrt(3.0F / 5.0F));  // of the widest layer
}

TEST_CASE("without measuring the first way is taken, and one is enough") {
  Chain chain;
  chain.options.tuning = ai::Tuning::Off;
  SUBCASE("") {
    ai::Executable executable = chain.capture();
    CHECK(names(executable) == Names{"chain/0"});
    CHECK(chain.backend.most == std::vector<std::size_t>{1});
    CHECK(chain.backend.lowered == 0);
    chain.check_result(executable);
    CHECK_FALSE(tuning::exists(*chain.options.tuning_cache));
  }
  SUBCASE("plan by plan where there is none") {
    chain.backend.reason = "there is no compiler";
    ai::Executable executable = chain.capture();
    CHECK(names(executable) == Names{"plain", "plain", "plain"});
    CHECK(has(executable.explain(), "does not apply: there is no compiler"));
    chain.check_result(executable);
  }
  SUBCASE("or where it cannot be loaded") {
    chain.backend.fused = {{"chain/0", 1, ai::test::Flaw::FailsToPrepare}};
    ai::Executable executable = chain.capture();
    CHECK(names(executable) == Names{"plain", "plain", "plain"});
    chain.check_result(executable);
  }
}

TEST_CASE("a second start lowers no plan and times nothing") {
  Chain chain;
  (void)chain.capture();
  const int lowered = chain.backend.lowered;
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"chain/1"});
  CHECK(chain.backend.lowered == lowered);
  CHECK(executable.tuning().candidates_timed == 0);
  CHECK(executable.tuning().recalled == 1);
  CHECK(executable.tuning().kernels_compiled == 0);
  CHECK(executable.tuning().orders_timed == 0);
  const std::string text = executable.explain();
  INFO(text);
  CHECK(has(text, "from the tuning file"));
  CHECK(has(text, "chain/0"));  // the runner-up
  chain.check_result(executable);
  CHECK(chain.warnings.empty());
}

TEST_CASE("nor does it ask for what was slower") {
  Chain chain;
  chain.backend.fused = {{"chain/0", 40}};
  (void)chain.capture();
  chain.backend.asked.clear();
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"plain", "plain", "plain"});
  CHECK(chain.backend.asked.empty());
  CHECK(executable.tuning().candidates_timed == 0);
  CHECK(executable.tuning().tasks == 1);
  CHECK(executable.tuning().recalled == 1);
  CHECK(has(executable.explain(), "* layers"));
  CHECK(has(executable.explain(), "from the tuning file"));
  chain.check_result(executable);
}

TEST_CASE("a run ends in front of a plan that cannot be fused, and where it is long enough") {
  Chain chain;
  chain.add(3, true);
  chain.add(6);
  Names expected;
  SUBCASE("in the middle") {  // 4 5 | 2 | 3 6
    chain.backend.refused_n = 2;
    expected = {"chain/1", "plain", "chain/1"};
  }
  SUBCASE("at the end") {
    chain.backend.refused_n = 6;
    expected = {"chain/1", "plain"};
  }
  SUBCASE("second") {  // a run of one plan is none
    chain.backend.refused_n = 5;
    expected = {"plain", "plain", "chain/1"};
  }
  SUBCASE("long") {
    chain.backend.most_plans = 2;
    expected = {"chain/1", "chain/1", "plain"};
  }
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == expected);
  chain.check_result(executable);
}

TEST_CASE("plans keep steps of their own where no layers are to be fused") {
  Chain chain;
  chain.options.fuse_layers = false;
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"plain", "plain", "plain"});
  CHECK(chain.backend.asked.empty());
  CHECK_FALSE(has(executable.explain(), "chain"));
  chain.check_result(executable);
}

TEST_CASE(
    "whether launches may be cooperative is told, and what was chosen otherwise is not known") {
  Chain chain;
  (void)chain.capture();
  chain.options.cooperative_launches = false;
  ai::Executable executable = chain.capture();
  CHECK(chain.backend.cooperative == std::vector<bool>{true, false});
  CHECK(executable.tuning().candidates_timed > 0);
  chain.check_result(executable);
  CHECK(chain.capture().tuning().candidates_timed == 0);  // each has an entry of its own
  chain.options.cooperative_launches = true;
  CHECK(chain.capture().tuning().candidates_timed == 0);
}

TEST_CASE("progress goes on from the plans to the runs") {
  Chain chain;
  chain.add(6, true, true);
  chain.add(3);
  std::size_t plans = 0;
  SUBCASE("plans with one way each") {}
  SUBCASE("plans to be measured") {
    chain.backend.has_other_layers = true;
    plans = 5;
  }
  const std::size_t tasks = plans + 2;
  double last = 0;
  std::vector<std::pair<std::string, std::size_t>> seen;
  chain.options.on_tuning_progress = [&](const ai::TuningProgress& progress) {
    CHECK(progress.elapsed_s >= last);
    CHECK(progress.budget_s == 10);
    CHECK(progress.tasks == tasks);
    CHECK(progress.candidates == (progress.task == "forward" ? 2 : 3));
    last = progress.elapsed_s;
    const auto now = std::pair(std::string(progress.task), progress.tasks_done);
    if (seen.empty() || seen.back() != now) seen.push_back(now);
  };
  (void)chain.capture();
  std::vector<std::pair<std::string, std::size_t>> expected;
  for (std::size_t i = 0; i < plans; ++i) expected.emplace_back("forward", i);
  expected.emplace_back("chain of 3", plans);
  expected.emplace_back("chain of 2", plans + 1);
  CHECK(seen == expected);
}

TEST_CASE("what is wrong with the folder of kernels is a warning") {
  Chain chain;
  chain.backend.problem = {ai::StatusCode::Unsupported, "left alone, the folder"};
  chain.add(4, true, true);  // the first run again, asked for in a call of its own
  chain.add(5, true);
  chain.add(2);
  CHECK(names(chain.capture()) == Names{"chain/1", "chain/1"});
  CHECK(chain.backend.asked.size() == 2);
  CHECK(chain.warnings == Names{"Unsupported: left alone, the folder"});
}

TEST_CASE("of many runs at once each gets fewer candidates, but where all are known") {
  Chain chain;
  for (int i = 0; i < 10; ++i) {
    chain.add(6 + i, false, true);
    chain.add(7 + i);
  }
  (void)chain.capture();
  CHECK(chain.backend.most == std::vector<std::size_t>{5});  // 64 kernels for 11 problems
  chain.backend.most.clear();
  (void)chain.capture();
  CHECK(chain.backend.most == std::vector<std::size_t>{8});
  for (int i = 0; i < 30; ++i) {
    chain.add(20 + i, false, true);
    chain.add(3);
  }
  chain.options.tuning = ai::Tuning::Remeasure;
  chain.backend.most.clear();
  (void)chain.capture();
  CHECK(chain.backend.most == std::vector<std::size_t>{2});
}

TEST_CASE("Remeasure asks again") {
  Chain chain;
  chain.backend.fused = {{"chain/0", 40}};
  (void)chain.capture();
  chain.backend.fused = {{"chain/0", 1}};
  chain.options.tuning = ai::Tuning::Remeasure;
  CHECK(names(chain.capture()) == Names{"chain/0"});
  chain.options.tuning = ai::Tuning::Measure;
  CHECK(names(chain.capture()) == Names{"chain/0"});
}

TEST_CASE("a way that cannot be had again is told and measured anew") {
  Chain chain;
  (void)chain.capture();
  SUBCASE("made") {
    chain.backend.forgotten = "chain/1";
  }
  SUBCASE("loaded") {
    chain.backend.without_module = "chain/1";
  }
  if (chain.backend.forgotten.empty()) {
    ai::Executable executable = chain.capture();
    CHECK(names(executable) == Names{"chain/1"});  // made by a search it can be loaded
    chain.check_result(executable);
  } else {
    chain.backend.fused = {{"chain/0", 3}};
    ai::Executable executable = chain.capture();
    CHECK(names(executable) == Names{"chain/0"});
    chain.check_result(executable);
  }
  CHECK(chain.backend.most.back() == 8);  // the search is as wide as the first
  REQUIRE(chain.warnings.size() == 1);
  CHECK(has(chain.warnings[0], "3 layers of a run at once"));
}

TEST_CASE("a run that repeats another's problem gets its kernel, unmeasured") {
  Chain chain;
  chain.add(4, true, true);
  chain.add(5, true);
  chain.add(2);
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"chain/1", "chain/1"});
  CHECK(chain.backend.asked == std::vector<std::size_t>{1, 1});
  CHECK(executable.tuning().measured == 1);
  REQUIRE(executable.launch(nullptr).ok());
  const auto calls = chain.calls();
  for (const std::size_t first : {0U, 3U}) {
    const std::vector<ai::GemmForward> mine(calls.begin() + first, calls.begin() + first + 3);
    CHECK(FusedProgram::values(mine.back().Y) == FusedProgram::expected(mine));
  }
  CHECK(has(executable.explain(), "the same problem as chain of 3 above"));
  chain.backend.asked.clear();
  const int lowered = chain.backend.lowered;
  CHECK(names(chain.capture()) == Names{"chain/1", "chain/1"});
  CHECK(chain.backend.asked == std::vector<std::size_t>{1, 1});
  CHECK(chain.backend.lowered == lowered);
}

TEST_CASE("two runs of different problems are asked for at once") {
  Chain chain;
  chain.add(6, true, true);
  chain.add(3);
  ai::Executable executable = chain.capture();
  CHECK(names(executable) == Names{"chain/1", "chain/1"});
  CHECK(chain.backend.asked == std::vector<std::size_t>{2});
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(FusedProgram::values(chain.layers[2].call.Y) ==
        FusedProgram::expected({chain.layers[0].call, chain.layers[1].call, chain.layers[2].call}));
  CHECK(FusedProgram::values(chain.layers[4].call.Y) ==
        FusedProgram::expected({chain.layers[3].call, chain.layers[4].call}));
}

TEST_CASE("a user step that comes between keeps its place, and a single layer its own steps") {
  FusedProgram chain;
  chain.add(4);
  ai::UserStep look;
  look.name = "look";
  look.reads = {chain.layers[0].call.Y};
  std::vector<float> seen;
  look.cuda = [&](const ai::StepContext& context) -> ai::Status {
    const auto* const data = static_cast<const float*>(context.reads[0].data);
    (void)chain.fake.work(context.stream, cudaGraphNodeTypeKernel, 1,
                          [&seen, data] { seen.assign(data, data + 8); });
    return {};
  };
  REQUIRE(chain.program.add(std::move(look)).ok());
  chain.add(2);
  chain.add(7, false, true);
  ai::Executable executable = chain.capture();
  CHECK(executable.nodes().size() == 3);
  REQUIRE(executable.launch(nullptr).ok());
  CHECK(seen == FusedProgram::expected({chain.layers[0].call}));
  CHECK(FusedProgram::values(chain.layers[1].call.Y) ==
        FusedProgram::expected({chain.layers[0].call, chain.layers[1].call}));
  CHECK(FusedProgram::values(chain.layers[2].call.Y) ==
        FusedProgram::expected({chain.layers[2].call}));
}
