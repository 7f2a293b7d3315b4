// What a capture says while it measures.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "recalled_program.hpp"

namespace ai::test {
namespace {

struct Seen {
  std::string task;
  std::size_t tasks, tasks_done, candidates, candidates_done;
  bool operator==(const Seen&) const = default;
};

TEST_CASE("progress is told before each candidate, in order, with time spent and budget") {
  Recalled r;
  r.add();
  r.add(4);
  r.add();
  std::vector<Seen> seen;
  double last_s = 0;
  r.options.on_tuning_progress = [&](const TuningProgress& p) {
    seen.push_back({std::string(p.task), p.tasks, p.tasks_done, p.candidates, p.candidates_done});
    CHECK(p.budget_s == 10.0);
    CHECK(p.elapsed_s >= last_s);
    last_s = p.elapsed_s;
  };
  (void)r.capture();
  const std::string a = "forward Y[3,5]";
  const std::string b = "forward Y[4,5]";
  const std::vector<Seen> expected{{a, 2, 0, 3, 0}, {a, 2, 0, 3, 1}, {a, 2, 0, 3, 2},
                                   {b, 2, 1, 3, 0}, {b, 2, 1, 3, 1}, {b, 2, 1, 3, 2}};
  CHECK(seen == expected);
  CHECK(last_s > 0);
  seen.clear();
  (void)r.capture();
  CHECK(seen.empty());  // all is recalled
}

TEST_CASE("what a progress handler throws is dropped") {
  Recalled r;
  r.options.on_tuning_progress = [](const TuningProgress&) { throw std::runtime_error("no"); };
  CHECK(r.chosen() == "quick");
}

TEST_CASE("options become the tuner's settings") {
  CaptureOptions options;
  options.tuning_budget_s = 3;
  int calls = 0;
  options.on_tuning_progress = [&](const TuningProgress&) { ++calls; };
  for (const Tuning tuning : {Tuning::Off, Tuning::Measure, Tuning::Remeasure}) {
    options.tuning = tuning;
    const detail::TunerSettings settings = detail::tuner_settings(options);
    CHECK(settings.measure == (tuning != Tuning::Off));
    CHECK(settings.budget_s == 3);
    settings.on_progress({});
  }
  CHECK(calls == 3);
}

}  // namespace
}  // namespace ai::test
