#include <doctest/doctest.h>

#include "capture/choice.hpp"

namespace ai::detail {
namespace {

LoweredTask task(const char* name, std::vector<Candidate> candidates) {
  LoweredTask lowered;
  lowered.task.name = name;
  lowered.task.candidates = std::move(candidates);
  return lowered;
}

TEST_CASE("explain lists the chosen candidate first, then the measured ones by time") {
  const std::vector<LoweredTask> tasks{task("forward Y[1,2]", {{"chain", "M > 1", true, {}},
                                                               {"fused", "", false, {}},
                                                               {"lt", "", true, {}},
                                                               {"plain", "", true, {}}})};
  Choice choice = undecided(tasks[0].task);
  choice.candidate = 2;
  choice.verdicts[1].remark = "dropped: wrong";
  choice.verdicts[2].time_us = 2.25;
  choice.verdicts[3].time_us = 3.5;
  const std::vector<Choice> choices{choice};
  CHECK(explain(tasks, choices) ==
        "forward Y[1,2]\n"
        "  * lt     2.25 us\n"
        "    plain  3.50 us\n"
        "    chain  does not apply: M > 1\n"
        "    fused  dropped: wrong\n");
}

TEST_CASE("a recalled choice shows its time and the runner-up, which is no candidate here") {
  LoweredTask lowered =
      task("forward Y[1,2]", {{"chain", "M > 1", true, {}}, {"lt/3", "", false, {}, "make it"}});
  lowered.stored = StoredChoice{.candidate = {"lt/3", "make it"},
                                .time_us = 2.25,
                                .runner_up = "lt_fused/12",
                                .runner_up_us = 2.5};
  Choice choice = take_stored(lowered);
  choice.note = "from a file";
  CHECK(explain({&lowered, 1}, {&choice, 1}) ==
        "forward Y[1,2] (from a file)\n"
        "  * lt/3         2.25 us\n"
        "    lt_fused/12  2.50 us  the runner-up\n"
        "    chain        does not apply: M > 1\n");
  choice.runner_up_us = -1;  // "null" in the file
  CHECK(explain({&lowered, 1}, {&choice, 1}) ==
        "forward Y[1,2] (from a file)\n"
        "  * lt/3         2.25 us\n"
        "    lt_fused/12  the runner-up\n"
        "    chain        does not apply: M > 1\n");
}

TEST_CASE(
    "what is stored of a choice is its candidate, with the runner-up of those that were checked") {
  const Task measured = task("t", {{"never", "not here", true, {}},
                                   {"unchecked", "", true, {}, "a"},
                                   {"best", "", true, {}, "b"},
                                   {"next", "", true, {}, "c"},
                                   {"third", "", true, {}, "d"},
                                   {"untimed", "", true, {}, "e"}})
                            .task;
  Choice choice = undecided(measured);
  choice.candidate = 2;
  const double times[] = {-1, 1, 2, 3, 4, -1};
  for (std::size_t i = 0; i < 6; ++i) {
    choice.verdicts[i].time_us = times[i];
    choice.verdicts[i].timed = times[i] >= 0;
    choice.verdicts[i].checked = times[i] >= 2;
  }
  const StoredChoice expected{.candidate = {"best", "b"},
                              .time_us = 2,
                              .runner_up = "next",
                              .runner_up_us = 3,
                              .applicable = 5,
                              .timed = 4};
  CHECK(to_store(measured, choice, 2.0) == expected);
  choice.is_cut_short = true;
  CHECK(to_store(measured, choice, 2.0)->budget_s == 2.0);
  choice.candidate = 5;
  CHECK(!to_store(measured, choice, 2.0));
}

TEST_CASE("explain leaves user steps out and gives the note of a task") {
  std::vector<LoweredTask> tasks{task("step 'x'", {{"user", "", true, {}}}),
                                 task("backward gA", {{"lt", "", true, {}}})};
  tasks[0].fixed = true;
  Choice choice = undecided(tasks[1].task);
  choice.candidate = 0;
  choice.note = "the same problem as above";
  const std::vector<Choice> choices{choice, choice};
  CHECK(explain(tasks, choices) == "backward gA (the same problem as above)\n  * lt\n");
}

TEST_CASE("dot writes nodes and edges, and escapes names") {
  const std::vector<Node> nodes{{"say \"hi\"", "kernel", {}}, {"b", "memset", {0}}};
  CHECK(dot(nodes) ==
        "digraph executable {\n"
        "  n0 [label=\"say \\\"hi\\\"\\nkernel\"];\n"
        "  n1 [label=\"b\\nmemset\"];\n"
        "  n0 -> n1;\n"
        "}\n");
}

}  // namespace
}  // namespace ai::detail
