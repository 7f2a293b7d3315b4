#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "recall_support.hpp"

using namespace forward_test;
using ai::Candidate;
using ai::RecalledCandidate;
using Names = std::vector<std::string>;

namespace {

/// What cuBLASLt is called with when the candidate runs.
fake_lt::Call call_of(const Candidate& candidate) {
  fake_lt::state().calls.clear();
  REQUIRE(fake_device::Runner().run(candidate).ok());
  REQUIRE(fake_lt::state().calls.size() == 1);
  return fake_lt::state().calls[0];
}

std::vector<const Candidate*> applicable(const Task& task) {
  std::vector<const Candidate*> result;
  for (const Candidate& candidate : task.candidates) {
    if (candidate.applicable()) result.push_back(&candidate);
  }
  return result;
}

/// A call for each shape that forward tasks take.
std::vector<std::pair<std::string, GemmForward>> calls_of(const Operands& o) {
  std::vector<std::pair<std::string, GemmForward>> calls(8, {"plain", o.call()});
  calls[1].first = "ReLU and bias";
  calls[1].second.attrs.act = ActKind::ReLU;
  calls[1].second.bias = o.per_n.tensor();
  calls[2].first = "ReLU and Z";
  calls[2].second.attrs.act = ActKind::ReLU;
  calls[2].second.Z = o.z.tensor();
  calls[3].first = "Tanh and bias along M";
  calls[3].second.attrs.act = ActKind::Tanh;
  calls[3].second.bias = o.per_m.tensor();
  calls[4].first = "C";
  calls[4].second.C = o.c.tensor();
  calls[4].second.attrs.beta = 2.0F;
  calls[5].first = "C in place and ReLU";
  calls[5].second.C = o.y.tensor();
  calls[5].second.attrs.beta = 2.0F;
  calls[5].second.attrs.act = ActKind::ReLU;
  calls[6].first = "Tanh and bias";
  calls[6].second.attrs.act = ActKind::Tanh;
  calls[6].second.bias = o.per_n.tensor();
  calls[7] = calls[6];
  calls[7].first = "Tanh, bias, Z and C in place";
  calls[7].second.Z = o.z.tensor();
  calls[7].second.C = o.y.tensor();
  calls[7].second.attrs.beta = 2.0F;
  return calls;
}

}  // namespace

TEST_CASE("each candidate's recipe gives it back alone, without a question to the heuristic") {
  const Operands o;
  for (const auto& [name, call] : calls_of(o)) {
    CAPTURE(name);
    const auto first = fake_device::fresh_backend();
    const Task searched = lower(*first, call);
    CHECK_FALSE(searched.recalled);
    CHECK(applicable(searched).size() > 1);
    for (const Candidate* candidate : applicable(searched)) {
      CAPTURE(candidate->name);
      REQUIRE_FALSE(candidate->recipe.empty());
      const fake_lt::Call wanted = call_of(*candidate);
      const auto backend = fake_device::fresh_backend();
      const Task task = recall(*backend, call, stored(*candidate));
      CHECK(task.name == searched.name);
      CHECK(task.recalled);
      CHECK(task.queries == 0);
      CHECK(fake_lt::state().questions.empty());
      CHECK(fake_lt::state().checks.size() == 1);
      REQUIRE(applicable(task).size() == 1);
      const Candidate& got = *applicable(task)[0];
      CHECK(got.name == candidate->name);
      CHECK(got.recipe == candidate->recipe);
      CHECK(got.trusted);
      REQUIRE(got.steps.size() == candidate->steps.size());
      for (std::size_t i = 0; i < got.steps.size(); ++i) {
        CHECK(got.steps[i]->name() == candidate->steps[i]->name());
        CHECK(got.steps[i]->reads().size() == candidate->steps[i]->reads().size());
      }
      const fake_lt::Call made = call_of(got);
      CHECK(std::memcmp(&made.algo, &wanted.algo, sizeof made.algo) == 0);
      CHECK(made.workspace_bytes == wanted.workspace_bytes);
      CHECK(made.operation.epilogue == wanted.operation.epilogue);
      CHECK(made.d_data == wanted.d_data);
    }
  }
}

TEST_CASE("families that do not apply keep their reasons beside what was recalled") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmForward call = o.call();
  call.Z = o.z.tensor();
  const Task task = recall(*backend, call, stored(lower(*backend, call).candidates.back()));
  CHECK(fake_device::names(task) ==
        Names{"fused", "lt_fused", "lt_bias", "epilogue", "lt_epilogue/fallback"});
  CHECK(contains(reason_of(task, "lt_fused"), "Z is asked for too"));
}

TEST_CASE("nothing is recalled where there is nothing to choose") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const ai::Recall never = [](std::size_t) -> const RecalledCandidate* {
    FAIL_CHECK("it was asked");
    return nullptr;
  };
  GemmForward call = o.call();
  const Matrix none(0, kN), no_a(kM, 0), no_b(0, kN), no_rows(0, kK);
  SUBCASE("K = 0") {
    call.A = no_a.tensor();
    call.B = no_b.tensor();
  }
  SUBCASE("alpha = 0") {
    call.attrs.alpha = 0.0F;
  }
  SUBCASE("M = 0") {
    call.A = no_rows.tensor();
    call.Y = none.tensor();
  }
  const Task task = lower(*backend, call, never);
  CHECK_FALSE(task.recalled);
  CHECK(task.queries == 0);
  CHECK(task.candidates.back().recipe.empty());
  CHECK(fake_lt::state().loads == 0);
}

TEST_CASE("a task that nothing is known of is searched for") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  int asked = 0;
  const Task task = lower(*backend, o.call(), [&](std::size_t) -> const RecalledCandidate* {
    ++asked;
    return nullptr;
  });
  CHECK(asked == 1);
  CHECK_FALSE(task.recalled);
  CHECK(applicable(task).size() == 4);
}

TEST_CASE("tasks of a run are numbered through, each is told of its own, and the rest searched") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const Matrix d(kM, 3), w(kK, 3);
  GemmForward second = o.call();
  second.B = w.tensor();
  second.Y = d.tensor();
  std::vector<ai::GemmPlan> run;
  for (const GemmForward& call : {o.call(), second, o.call()}) {
    run.push_back(ai::plan_forward(call).value());
  }
  const RecalledCandidate known = stored(lower(*backend, second).candidates.back());
  std::vector<std::size_t> asked;
  const auto tasks = backend->lower(run, [&](std::size_t task) {
    asked.push_back(task);
    return task == 1 ? &known : nullptr;
  });
  REQUIRE(tasks.ok());
  CHECK(asked == std::vector<std::size_t>{0, 1, 2});
  CHECK_FALSE((*tasks)[0].recalled);
  CHECK((*tasks)[1].recalled);
  CHECK_FALSE((*tasks)[2].recalled);
}
