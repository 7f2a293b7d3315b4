#include "capture/tuner.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "fake_program.hpp"

namespace ai::test {
namespace {

using detail::Choice;

struct Way {
  const char* name;
  double takes_us;
  Flaw flaw = Flaw::None;
  bool trusted = true;
};

/// A program of one layer (or several equal ones) whose backend knows some ways to do it.
struct Tuned {
  Tuned(FakeCuda& runtime, std::vector<Way> all, int layers = 1)
      : fake(runtime), ways(std::move(all)), backend([this](const GemmPlan& plan) {
          Task task;
          task.name = "forward";
          for (const Way& way : ways) {
            task.candidates.push_back(candidate(
                way.name, gemm_step(fake, plan, way.name, way.takes_us, way.flaw, &runs[way.name]),
                way.trusted));
          }
          return std::vector<Task>{task};
        }) {
    for (int i = 0; i < layers; ++i) {
      operands.emplace_back(fake, 3, 5, 7);
      REQUIRE(program.add(operands.back().plan()).ok());
    }
  }

  /// The text of explain(), or of the error.
  std::string capture(bool measure, double budget_s = 10.0) {
    Result<Executable> made = detail::capture_with(FakeCuda::api(), backend, program, {},
                                                   settings(fake, measure, budget_s));
    if (!made.ok()) return made.status().to_string();
    nodes = made->nodes();
    CHECK(operands[0].y() == -1.0F);  // never touched before a launch
    CHECK(static_cast<const float*>(operands[0].call.A.data)[0] == 1.0F);
    REQUIRE(made->launch(nullptr).ok());
    CHECK(operands[0].y() == 14.0F);
    return made->explain();
  }
  [[nodiscard]] std::string chosen() const { return nodes.empty() ? "" : nodes[0].name; }

  FakeCuda& fake;
  std::vector<Way> ways;
  FakeBackend backend;
  std::vector<Layer> operands;
  Program program;
  std::vector<Node> nodes;
  std::map<std::string, int> runs;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("measuring takes the quickest candidate and explains the others") {
  FakeCuda fake;
  Tuned tuned(fake, {{"slow", 5}, {"quick", 2, Flaw::None, false}, {"plain", 4}});
  const std::string text = tuned.capture(true);
  CHECK_MESSAGE(tuned.chosen() == "quick", text);
  CHECK_MESSAGE(has(text, "* quick  2.1"), text);  // a launch of ten copies takes 1 us itself
  CHECK_MESSAGE(has(text, "slow   5.1"), text);
  CHECK_MESSAGE(has(text, "plain  4.1"), text);
  CHECK(settled(fake) == "");
}

TEST_CASE("without measuring the first candidate in table order is taken, untimed") {
  FakeCuda fake;
  Tuned tuned(fake, {{"first", 5}, {"second", 2}, {"plain", 4}});
  CHECK(tuned.capture(false) == "forward\n  * first\n    second\n    plain\n");
  CHECK(fake.count("event_record") == 0);
  CHECK(settled(fake) == "");
}

TEST_CASE("an untrusted candidate that gives wrong results is rejected, however quick") {
  FakeCuda fake;
  const bool measure = true;
  Tuned tuned(fake, {{"wrong", 1, Flaw::WrongValue, false}, {"right", 3}, {"plain", 4}});
  SUBCASE("measured") {
    const std::string text = tuned.capture(measure);
    CHECK_MESSAGE(has(text, "dropped: Invalid: its results are wrong"), text);
  }
  SUBCASE("unmeasured") {
    const std::string text = tuned.capture(!measure);
    CHECK_MESSAGE(has(text, "dropped: Invalid: its results are wrong"), text);
  }
  CHECK(tuned.chosen() == "right");
  CHECK(settled(fake) == "");
}

TEST_CASE("C4: a candidate that loses NaN, or an infinity, is rejected") {
  FakeCuda fake;
  for (const Flaw flaw : {Flaw::LosesNaN, Flaw::LosesInf}) {
    for (const bool measure : {true, false}) {
      Tuned tuned(fake, {{"bad", 1, flaw, false}, {"plain", 4}});
      const std::string text = tuned.capture(measure);
      CHECK_MESSAGE(tuned.chosen() == "plain", text);
      CHECK_MESSAGE(has(text, "its results are wrong"), text);
    }
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("an untrusted candidate that passes its check may be taken") {
  FakeCuda fake;
  Tuned tuned(fake, {{"fused", 1, Flaw::None, false}, {"plain", 4}});
  (void)tuned.capture(false);
  CHECK(tuned.chosen() == "fused");
  CHECK(settled(fake) == "");
}

TEST_CASE("a candidate that cannot be prepared or enqueued is dropped with its error") {
  FakeCuda fake;
  for (const bool measure : {true, false}) {
    Tuned tuned(fake, {{"unloadable", 1, Flaw::FailsToPrepare, false},
                       {"unlaunchable", 1, Flaw::FailsToEnqueue, false},
                       {"plain", 4}});
    const std::string text = tuned.capture(measure);
    CHECK_MESSAGE(tuned.chosen() == "plain", text);
    CHECK_MESSAGE(has(text, "no such module"), text);
    CHECK_MESSAGE(has(text, "no such kernel"), text);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("when no candidate can be prepared, the error is returned") {
  FakeCuda fake;
  Tuned tuned(fake, {{"a", 1, Flaw::FailsToPrepare}, {"b", 1, Flaw::FailsToPrepare}});
  CHECK(has(tuned.capture(true), "Unsupported: step 'b': no such module"));
  CHECK(settled(fake) == "");
}

TEST_CASE("a failing launch while timing drops that candidate only") {
  FakeCuda fake;
  Tuned tuned(fake, {{"quick", 1}, {"plain", 4}});
  fake.fail("graph_launch", 3, cudaErrorUnknown);
  const std::string text = tuned.capture(true);
  CHECK_MESSAGE(tuned.chosen() == "plain", text);
  CHECK_MESSAGE(has(text, "cudaGraphLaunch failed"), text);
  CHECK(settled(fake) == "");
}

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
  // Checking and timing one of these takes about 10 ms of the device's clock.
  Tuned tuned(fake, {{"slow", 50}, {"slower", 60}, {"quick", 1}, {"plain", 40}});
  const std::string text = tuned.capture(true, 0.02);
  CHECK_MESSAGE(tuned.chosen() == "slow", text);
  CHECK_MESSAGE(has(text, "quick   not measured: the tuning budget"), text);
  CHECK(fake.seconds() < 0.1);
  CHECK(settled(fake) == "");
}

TEST_CASE("the best three are measured again, the others are not") {
  FakeCuda fake;
  Tuned tuned(fake, {{"e", 50}, {"d", 40}, {"c", 30}, {"b", 20}, {"a", 10}});
  (void)tuned.capture(true);
  CHECK(tuned.chosen() == "a");
  CHECK(tuned.runs["c"] > 2 * tuned.runs["d"]);
  CHECK(tuned.runs["b"] == tuned.runs["c"]);
  CHECK(settled(fake) == "");
}

TEST_CASE("equal problems are decided once") {
  FakeCuda one_fake;
  int alone = 0;
  {
    Tuned tuned(one_fake, {{"slow", 5}, {"quick", 2}, {"plain", 4}}, 1);
    (void)tuned.capture(true);
    alone = one_fake.count("event_record");
  }
  (void)settled(one_fake);
  FakeCuda fake;
  Tuned tuned(fake, {{"slow", 5}, {"quick", 2}, {"plain", 4}}, 3);
  const std::string text = tuned.capture(true);
  CHECK(alone > 0);
  CHECK(fake.count("event_record") == alone);
  REQUIRE(tuned.nodes.size() == 3);
  CHECK(tuned.nodes[2].name == "quick");
  CHECK_MESSAGE(has(text, "the same problem as"), text);
  CHECK(settled(fake) == "");
}

TEST_CASE("a task whose scratch is more than a quarter of the free memory is not run at all") {
  FakeCuda fake;
  Tuned tuned(fake, {{"doubtful", 1, Flaw::None, false}, {"slow", 5}, {"plain", 4}});
  fake.free_bytes = 2000;
  const std::string text = tuned.capture(true);
  CHECK_MESSAGE(tuned.chosen() == "slow", text);
  CHECK_MESSAGE(has(text, "a quarter of the free device memory"), text);
  CHECK(fake.count("event_record") == 0);
  CHECK(settled(fake) == "");
}

TEST_CASE("one candidate needs no scratch, no stream and no clock") {
  FakeCuda fake;
  Tuned tuned(fake, {{"plain", 4}});
  (void)tuned.capture(true);
  CHECK(fake.count("mem_get_info") == 0);
  CHECK(fake.count("event_create_with_flags") == 0);
  CHECK(settled(fake) == "");
}

TEST_CASE("D3: the error slot is clean after candidates have failed") {
  FakeCuda fake;
  Tuned tuned(fake, {{"bad", 1, Flaw::FailsToEnqueue, false}, {"plain", 4}});
  (void)tuned.capture(true);
  CHECK(fake.last_error == cudaSuccess);
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
