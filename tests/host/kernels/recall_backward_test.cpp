#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backward_support.hpp"
#include "fake_device.hpp"
#include "kernels/gradients.hpp"
#include "matrix.hpp"

using ai::ActKind;
using ai::BiasKind;
using ai::Candidate;
using ai::GemmBackward;
using ai::GradMode;
using ai::RecalledCandidate;
using ai::Task;
using backward_test::lower;
using Names = std::vector<std::string>;

namespace {

struct Operands {
  Matrix a{5, 6, 2}, b{6, 12, 1, 0, 2}, gy{5, 12, 2, 0, 3}, z{5, 12, 1, 0, 4};
  Matrix ga{5, 6, 5, 0, 5}, gb{6, 12, 3, 0, 6}, gbias{1, 12};

  [[nodiscard]] GemmBackward call(ActKind act, GradMode mode = GradMode::Overwrite) const {
    GemmBackward call = {.A = a.tensor(),
                         .B = b.tensor(),
                         .gY = gy.tensor(),
                         .gA = ai::Gradient(ga.tensor(), mode),
                         .gB = ai::Gradient(gb.tensor(), mode),
                         .gBias = ai::Gradient(gbias.tensor(), mode)};
    call.attrs.act = act;
    if (act != ActKind::None) call.Z = z.tensor();
    return call;
  }
};

const ai::Recall kNever = [](std::size_t) -> const RecalledCandidate* {
  FAIL_CHECK("it was asked");
  return nullptr;
};

/// What is known of a task by what `plan`'s gradients give, and how often it was asked for.
struct Known {
  RecalledCandidate candidate;
  mutable int asked = 0;
  ai::Recall recall = [this](std::size_t) {
    ++asked;
    return &candidate;
  };
};

Task gradients(const ai::GemmPlan& plan, const ai::Recall& recall = {}) {
  return ai::kernels::gradient_task(fake_device::api(), 132, plan, nullptr, {recall, 0});
}

}  // namespace

TEST_CASE("all tasks of a backward plan are recalled, each by its number, and nothing is asked") {
  const Operands o;
  for (const ActKind act : {ActKind::None, ActKind::GELU}) {
    for (const GradMode mode : {GradMode::Overwrite, GradMode::Accumulate}) {
      CAPTURE(static_cast<int>(act));
      CAPTURE(static_cast<int>(mode));
      const GemmBackward call = o.call(act, mode);
      const auto first = fake_device::fresh_backend();
      const std::vector<Task> searched = lower(*first, call);
      REQUIRE(searched.size() == 3);
      for (std::size_t pick = 0; pick < 6; ++pick) {
        std::vector<RecalledCandidate> known;
        for (const Task& task : searched) {
          const Candidate& candidate = task.candidates[std::min(pick, task.candidates.size() - 1)];
          REQUIRE(candidate.applicable());
          REQUIRE_FALSE(candidate.recipe.empty());
          known.push_back({candidate.name, candidate.recipe});
        }
        const auto backend = fake_device::fresh_backend();
        const std::vector<Task> tasks =
            lower(*backend, call, [&](std::size_t task) { return &known.at(task); });
        REQUIRE(tasks.size() == 3);
        CHECK(fake_lt::state().questions.empty());
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          CHECK(tasks[i].name == searched[i].name);
          CHECK(tasks[i].recalled);
          CHECK(tasks[i].queries == 0);
          REQUIRE(tasks[i].candidates.size() == 1);
          CHECK(tasks[i].candidates[0].name == known[i].name);
          CHECK(tasks[i].candidates[0].recipe == known[i].recipe);
          CHECK(tasks[i].candidates[0].trusted);
          CHECK_FALSE(tasks[i].candidates[0].steps.empty());
        }
        CHECK(ai::depends_on(*tasks[1].candidates[0].steps[0], *tasks[0].candidates[0].steps[0]) ==
              (act != ActKind::None));
      }
    }
  }
}

TEST_CASE("a recalled gA runs the algorithm that was found, byte for byte") {
  Operands o;
  GemmBackward call = o.call(ActKind::None);
  const auto first = fake_device::fresh_backend();
  const Task searched = lower(*first, call)[1];
  for (const Candidate& candidate : searched.candidates) {
    CAPTURE(candidate.name);
    if (!candidate.name.starts_with("lt_")) continue;
    const auto backend = fake_device::fresh_backend();
    REQUIRE(fake_device::Runner().run(candidate).ok());
    const RecalledCandidate known = {candidate.name, candidate.recipe};
    const std::vector<Task> tasks =
        lower(*backend, call, [&](std::size_t task) { return task == 1 ? &known : nullptr; });
    CHECK_FALSE(tasks[0].recalled);
    CHECK(tasks[1].recalled);
    CHECK_FALSE(tasks[2].recalled);
    REQUIRE(fake_device::Runner().run(tasks[1].candidates[0]).ok());
    REQUIRE(fake_lt::state().calls.size() == 2);
    const fake_lt::Call& wanted = fake_lt::state().calls[0];
    const fake_lt::Call& made = fake_lt::state().calls[1];
    CHECK(std::memcmp(&made.algo, &wanted.algo, sizeof made.algo) == 0);
    CHECK(made.workspace_bytes == wanted.workspace_bytes);
  }
}

TEST_CASE("products of a backward plan count their questions, and equal ones are asked once") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const std::vector<Task> once = lower(*backend, o.call(ActKind::GELU));
  CHECK(once[0].queries == 0);
  CHECK(once[1].queries == 3);
  CHECK(once[2].queries == 3);
  const std::vector<Task> again = lower(*backend, o.call(ActKind::GELU));
  CHECK(again[1].queries == 0);
  CHECK(again[2].queries == 0);
  CHECK(fake_lt::state().questions.size() == 6);
}

TEST_CASE("what is no good for a gradient of a matrix is passed over") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  const GemmBackward call = o.call(ActKind::None);
  const Task searched = lower(*backend, call)[2];
  const Candidate& good = *fake_device::find(searched, "lt_gemm/0");
  for (const RecalledCandidate& known :
       {RecalledCandidate{"lt_gemm/0", "lt 0"}, RecalledCandidate{"lt_gemm", good.recipe},
        RecalledCandidate{"lt_fused/0", good.recipe}, RecalledCandidate{"zero_fill", ""},
        RecalledCandidate{"lt_gemm/tiles", good.recipe}}) {
    CAPTURE(known.name);
    const Task task =
        lower(*backend, call, [&](std::size_t i) { return i == 2 ? &known : nullptr; })[2];
    CHECK_FALSE(task.recalled);
    CHECK(fake_device::names(task) == fake_device::names(searched));
  }
}

TEST_CASE("gradients that are zeros or nothing have no recipe and are not recalled") {
  const auto backend = fake_device::fresh_backend();
  const Operands o;
  GemmBackward call = o.call(ActKind::None);
  call.gBias.reset();
  call.attrs.alpha = 0.0F;
  for (const GradMode mode : {GradMode::Overwrite, GradMode::Accumulate}) {
    call.gA->mode = call.gB->mode = mode;
    for (const Task& task : lower(*backend, call, kNever)) {
      CHECK_FALSE(task.recalled);
      CHECK(task.candidates.at(0).recipe.empty());
    }
  }
  CHECK(fake_lt::state().loads == 0);
}

TEST_CASE("a gBias is made the way it was found best, alone") {
  (void)fake_device::fresh_backend();
  for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
    for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
      CAPTURE(static_cast<int>(act));
      CAPTURE(static_cast<int>(kind));
      const Matrix a(64, 2), b(2, 12), gy(64, 12), z(64, 12), per_n(1, 12), per_m(64, 1), one(1, 1);
      const Matrix& bias = kind == BiasKind::PerN ? per_n : kind == BiasKind::PerM ? per_m : one;
      GemmBackward call = {.A = a.tensor(),
                           .B = b.tensor(),
                           .gY = gy.tensor(),
                           .gBias = ai::Gradient(bias.tensor())};
      call.attrs.act = act;
      if (act != ActKind::None) call.Z = z.tensor();
      const auto plan = ai::plan_backward(call);
      REQUIRE(plan.ok());
      const Task searched = gradients(*plan);
      const std::size_t ways = kind == BiasKind::PerN ? 4 : act == ActKind::None ? 3 : 2;
      CHECK(searched.candidates.size() == ways);
      for (const Candidate& candidate : searched.candidates) {
        CAPTURE(candidate.name);
        CHECK(candidate.recipe == (candidate.applicable() ? candidate.name : ""));
        Known known{{candidate.name, candidate.name}};
        const Task task = gradients(*plan, known.recall);
        CHECK(known.asked == 1);
        CHECK(task.recalled == candidate.applicable());
        if (!task.recalled) {  // as where CUB finds no GPU
          CHECK(fake_device::names(task) == fake_device::names(searched));
          continue;
        }
        REQUIRE(task.candidates.size() == 1);
        CHECK(task.candidates[0].name == candidate.name);
        CHECK(task.candidates[0].steps.size() == candidate.steps.size());
      }
      for (const RecalledCandidate& bad :
           {RecalledCandidate{"activation_grad", ""}, RecalledCandidate{"", ""},
            RecalledCandidate{"bias_grad/zero", "bias_grad/zero"},
            RecalledCandidate{kind == BiasKind::PerM ? "cub_reduce" : "cub_segmented_reduce",
                              kind == BiasKind::PerM ? "cub_reduce" : "cub_segmented_reduce"}}) {
        CAPTURE(bad.name);
        const Task task = gradients(*plan, Known{bad}.recall);
        CHECK_FALSE(task.recalled);
        CHECK(fake_device::names(task) == fake_device::names(searched));
      }
    }
  }
}

TEST_CASE("a gBias that only one way is open for is not recalled") {
  (void)fake_device::fresh_backend();
  const Matrix a(4096, 2), b(2, 12), gy(4096, 12, 4), one(1, 1), per_n(1, 12);
  const Matrix gc(4096, 12), c(4096, 12);
  GemmBackward call = {.A = a.tensor(), .B = b.tensor(), .gY = gy.tensor()};
  SUBCASE("too many rows for one kernel, and padding in CUB's way") {
    call.gBias = ai::Gradient(one.tensor());
  }
  SUBCASE("too many rows for one kernel, and no CUB for PerN") {
    call.gBias = ai::Gradient(per_n.tensor());
  }
  SUBCASE("no bias") {
    call.C = c.tensor();
    call.gC = ai::Gradient(gc.tensor());
    call.attrs.beta = 1.0F;
  }
  const auto plan = ai::plan_backward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  const Task task = gradients(*plan, kNever);
  REQUIRE_FALSE(task.candidates.empty());
  CHECK(task.candidates.back().applicable());
}

TEST_CASE("one kernel that would walk too many rows by now is not recalled") {
  (void)fake_device::fresh_backend();
  const Matrix a(4096, 2), b(2, 12), gy(4096, 12), one(1, 1);
  const GemmBackward call = {
      .A = a.tensor(), .B = b.tensor(), .gY = gy.tensor(), .gBias = ai::Gradient(one.tensor())};
  const auto plan = ai::plan_backward(call);
  REQUIRE(plan.ok());
  Known known{{"activation_grad", "activation_grad"}};
  const Task task = gradients(*plan, known.recall);
  CHECK(known.asked == 1);
  CHECK_FALSE(task.recalled);
  CHECK(task.candidates.size() == 3);
}
