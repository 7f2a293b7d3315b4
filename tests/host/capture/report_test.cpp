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
