#include "capture/tuner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "capture/stopwatch.hpp"
#include "tuned_program.hpp"

namespace ai::test {
namespace {

using detail::Choice;

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

TEST_CASE("so is one that is wrong in the middle of an output of many megabytes") {
  FakeCuda fake;
  Tuned tuned(fake, {{"wrong", 1, Flaw::WrongMiddle, false}, {"plain", 4}}, 0);
  tuned.operands.emplace_back(fake, 4096, 1024, 1);
  REQUIRE(tuned.program.add(tuned.operands.back().plan()).ok());
  const auto made = detail::capture_with(FakeCuda::api(), tuned.backend, tuned.program, {},
                                         settings(fake, false, 0));
  REQUIRE_MESSAGE(made.ok(), made.status().to_string());
  CHECK_MESSAGE(has(made->explain(), "dropped: Invalid: its results"), made->explain());
  CHECK(made->nodes()[0].name == "plain");
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
  CHECK(has(tuned.capture(true), "Unsupported: step 'a': no such module"));
  CHECK(settled(fake) == "");
}

TEST_CASE("a failing launch while timing drops that candidate only, be it the fallback") {
  std::map<std::string, int> dropped;
  for (int nth = 1; nth < 60; ++nth) {
    FakeCuda fake;
    Tuned tuned(fake, {{"quick", 1, Flaw::None, false}, {"plain", 1.2}});
    fake.fail("graph_launch", nth, cudaErrorUnknown);
    const std::string text = tuned.capture(true);
    for (const char* name : {"quick", "plain"}) {
      if (!has(text, std::string(name) + "  dropped: CudaError: cudaGraphLaunch failed")) continue;
      ++dropped[name];
      CHECK_MESSAGE(tuned.chosen() != name, text);
    }
    CHECK(settled(fake) == "");
  }
  CHECK(dropped["quick"] > 10);
  CHECK(dropped["plain"] > 10);
}

TEST_CASE("a broken fallback is dropped alone: what is trusted stands, what is not is not taken") {
  FakeCuda fake;
  for (const Flaw flaw : {Flaw::FailsToEnqueue, Flaw::FailsToPrepare}) {
    const char* const error = flaw == Flaw::FailsToEnqueue ? "no such kernel" : "no such module";
    Tuned tuned(
        fake,
        {{"doubtful", 2.9, Flaw::None, false}, {"good", 4}, {"better", 3}, {"plain", 2, flaw}});
    const std::string text = tuned.capture(true);
    CHECK_MESSAGE(tuned.chosen() == "better", text);
    CHECK_MESSAGE(has(text, "better    3.10 us  not checked: the fallback failed"), text);
    CHECK_MESSAGE(has(text, "good      4.10 us  not checked: the fallback failed"), text);
    CHECK_MESSAGE(has(text, "doubtful  not taken: it could not be checked, the fallback"), text);
    CHECK_MESSAGE(has(text, "plain     dropped: "), text);
    CHECK_MESSAGE(has(text, error), text);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("with a broken fallback a trusted candidate is captured, measured or not") {
  FakeCuda fake;
  for (const Flaw flaw : {Flaw::FailsToEnqueue, Flaw::FailsToPrepare}) {
    for (const bool measure : {true, false}) {
      Tuned tuned(fake, {{"good", 5}, {"plain", 2, flaw}});
      CHECK_MESSAGE(has(tuned.capture(measure), "* good"), measure);
      Tuned behind(fake, {{"doubtful", 1, Flaw::None, false}, {"good", 5}, {"plain", 2, flaw}});
      CHECK_MESSAGE(has(behind.capture(measure), "* good"), measure);
    }
  }
  CHECK(settled(fake) == "");
}

TEST_CASE(
    "when only an untrusted candidate stands beside a broken fallback, its error is returned") {
  FakeCuda fake;
  for (const bool measure : {true, false}) {
    Tuned enqueue(fake, {{"doubtful", 1, Flaw::None, false}, {"plain", 2, Flaw::FailsToEnqueue}});
    CHECK(has(enqueue.capture(measure), "no such kernel"));
    Tuned prepare(fake, {{"doubtful", 1, Flaw::None, false}, {"plain", 2, Flaw::FailsToPrepare}});
    CHECK(has(prepare.capture(measure), "no such module"));
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("of those that look quick the best three are checked and measured again") {
  FakeCuda fake;
  Tuned tuned(fake, {{"e", 14}, {"d", 13}, {"c", 12}, {"b", 11}, {"a", 10}, {"plain", 14.5}});
  (void)tuned.capture(true);
  CHECK(tuned.chosen() == "a");
  CHECK(tuned.runs["c"] > 2 * tuned.runs["d"]);
  CHECK(tuned.runs["b"] == tuned.runs["c"]);
  CHECK(tuned.runs["d"] == tuned.runs["e"]);
  CHECK(settled(fake) == "");
}

TEST_CASE("a candidate that is far behind at first is neither timed further nor checked") {
  FakeCuda fake;
  Tuned tuned(fake, {{"near", 4}, {"far", 30}, {"farther", 300}, {"best", 3}, {"plain", 5}});
  const std::string text = tuned.capture(true);
  CHECK_MESSAGE(tuned.chosen() == "best", text);
  CHECK_MESSAGE(has(text, "far      30.10 us  at first; not timed further"), text);
  CHECK_MESSAGE(has(text, "farther  300.00 us  at first; not timed further"), text);
  CHECK(tuned.runs["far"] == 2 + 2 * 10);
  CHECK(tuned.runs["farther"] == 2);  // the second shows that the first loaded nothing
  CHECK(tuned.runs["near"] > 300);
  CHECK(settled(fake) == "");
}

TEST_CASE("of many alike only sixteen are timed well") {
  FakeCuda fake;
  std::vector<std::string> names(40);
  std::vector<Way> ways;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = "way" + std::to_string(i);
    ways.push_back({names[i].c_str(), 3.0 - 0.01 * static_cast<double>(i)});
  }
  Tuned tuned(fake, ways);
  (void)tuned.capture(true);
  CHECK(tuned.chosen() == "way39");
  const auto well = std::count_if(tuned.runs.begin(), tuned.runs.end(),
                                  [](const auto& each) { return each.second > 100; });
  CHECK(well == 16);
  CHECK(tuned.took_s < 0.1);
  CHECK(settled(fake) == "");
}

TEST_CASE("the quickest are wrong: they are dropped until one is right, be it a slow one") {
  FakeCuda fake;
  SUBCASE("among those timed well") {
    Tuned tuned(fake, {{"nan", 1, Flaw::LosesNaN, false},
                       {"inf", 1.1, Flaw::LosesInf, false},
                       {"value", 1.2, Flaw::WrongValue, false},
                       {"right", 1.3, Flaw::None, false},
                       {"plain", 4}});
    const std::string text = tuned.capture(true);
    CHECK_MESSAGE(tuned.chosen() == "right", text);
    for (const char* name : {"nan  ", "inf  ", "value"}) {
      CHECK_MESSAGE(has(text, std::string(name) + "  dropped: Invalid: its results"), text);
    }
  }
  SUBCASE("beyond them") {
    Tuned tuned(fake, {{"wrong", 1, Flaw::LosesNaN, false},
                       {"slow", 6, Flaw::None, false},
                       {"slower", 7, Flaw::None, false},
                       {"plain", 9}});
    const std::string text = tuned.capture(true);
    CHECK_MESSAGE(tuned.chosen() == "slow", text);
    CHECK(tuned.runs["slower"] == 2 + 2 * 10);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("equal problems are decided once") {
  FakeCuda one_fake;
  int alone = 0;
  {
    Tuned tuned(one_fake, {{"slow", 5}, {"quick", 2}, {"plain", 4}}, 1);
    (void)tuned.capture(true);
    alone = tuned.runs["slow"];
  }
  (void)settled(one_fake);
  FakeCuda fake;
  Tuned tuned(fake, {{"slow", 5}, {"quick", 2}, {"plain", 4}}, 3);
  const std::string text = tuned.capture(true);
  CHECK(alone > 0);
  CHECK(tuned.runs["slow"] == alone);
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

/// Copies 15 floats; what it makes of each is `change`'s.
std::shared_ptr<TestStep> copy_step(FakeCuda& fake, std::string name, const Tensor& from,
                                    const Tensor& to, std::function<float(float)> change) {
  const auto body = [&fake, from, to, change](const AddressMap& addresses, Stream stream) {
    const auto* const source = static_cast<const float*>(addresses(from).data);
    auto* const target = static_cast<float*>(addresses(to).data);
    const auto kernel = [=] {
      for (int i = 0; change && i < 15; ++i) target[i] = change(source[i]);
    };
    return fake.work(stream, cudaGraphNodeTypeKernel, 1, kernel) == cudaSuccess
               ? Status()
               : Status(StatusCode::CudaError, "the copy could not be launched");
  };
  return std::make_shared<TestStep>(std::move(name), std::vector{range_of(from)},
                                    std::vector{range_of(to)}, body);
}

TEST_CASE("scratch that one task hands to another is poisoned and compared, and filled with NaN") {
  FakeCuda fake;
  const auto copies = [](float x) { return x; };
  const auto loses_nan = [](float x) { return std::isnan(x) ? 0.0F : x; };
  const Layer layer(fake, 3, 5, 5);
  Tensor scratch = layer.call.Y;
  scratch.data = symbolic::allocate(15 * sizeof(float));
  FakeBackend backend([&](const GemmPlan& plan) {
    const Tensor& y = plan.forward().Y;
    Task first{"first",
               {candidate("lazy", copy_step(fake, "lazy", layer.call.A, scratch, {}), false),
                candidate("writes", copy_step(fake, "writes", layer.call.A, scratch, copies))}};
    Task second{"second",
                {candidate("loses", copy_step(fake, "loses", scratch, y, loses_nan), false),
                 candidate("keeps", copy_step(fake, "keeps", scratch, y, copies))}};
    return std::vector<Task>{first, second};
  });
  Program program;
  REQUIRE(program.add(layer.plan()).ok());
  for (const bool measure : {true, false}) {
    const Result<Executable> made = capture_fake(fake, backend, program, measure);
    REQUIRE(made.ok());
    CHECK_MESSAGE(has(made->explain(), "* writes"), made->explain());
    CHECK_MESSAGE(has(made->explain(), "* keeps"), made->explain());
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("what was left out of the final round does not win by its older time") {
  FakeCuda fake;
  int replays = 0;
  fake.graph_takes_us = [&](std::size_t nodes, const FakeCuda::Edges&) {
    return 0.05 * ++replays * static_cast<double>(nodes);  // a GPU that gets slower and slower
  };
  Tuned tuned(fake, {{"a", 50}, {"b", 51}, {"c", 52}, {"plain", 53}});
  const std::string text = tuned.capture(true);
  CHECK_MESSAGE(tuned.chosen() == "a", text);
  CHECK_MESSAGE(has(text, "* a      "), text);
}

}  // namespace
}  // namespace ai::test
