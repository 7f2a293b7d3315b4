#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/lt_candidates.hpp"
#include "kernels/lt_recipe.hpp"
#include "recall_support.hpp"

using namespace forward_test;
using ai::Candidate;
using ai::RecalledCandidate;
using ai::kernels::LtRecipe;
using Names = std::vector<std::string>;

namespace {

/// The name and a recipe that its fields can be changed in before it is written.
RecalledCandidate changed(const Candidate& candidate,
                          const std::function<void(LtRecipe&)>& change) {
  std::optional<LtRecipe> recipe = ai::kernels::parse_lt_recipe(candidate.recipe);
  REQUIRE(recipe.has_value());
  change(*recipe);
  return {candidate.name, to_text(*recipe)};
}

}  // namespace

TEST_CASE("what is no good is passed over, and the task is searched for as usual") {
  const Operands o;
  GemmForward call = o.call();
  call.attrs.act = ActKind::ReLU;
  const auto first = fake_device::fresh_backend();
  const Task searched = lower(*first, call);
  const Candidate& good = *fake_device::find(searched, "lt_fused/1");  // with 1 MiB of scratch
  const auto backend = fake_device::fresh_backend();
  REQUIRE(recall(*backend, call, stored(good)).recalled);

  RecalledCandidate known = stored(good);
  std::size_t checks = 0;  // that it takes to see what is wrong
  SUBCASE("nothing is known: empty texts") {
    known = {};
  }
  SUBCASE("a digit that is none") {
    known.recipe[20] = 'g';
  }
  SUBCASE("one digit changed") {
    known.recipe[60] = known.recipe[60] == '0' ? '1' : '0';
  }
  SUBCASE("cut short") {
    known.recipe.pop_back();
  }
  SUBCASE("something behind it") {
    known.recipe += "0";
  }
  SUBCASE("the recipe of another library") {
    known.recipe = known.name;
  }
  SUBCASE("an algorithm that cuBLASLt does not know") {
    known = changed(good, [](LtRecipe& recipe) { recipe.algorithm.algo.data[3] ^= 1; });
    checks = 1;
  }
  SUBCASE("an algorithm that cuBLASLt refuses in the result") {
    fake_lt::state().check_state = CUBLAS_STATUS_NOT_SUPPORTED;
    checks = 1;
  }
  SUBCASE("less scratch than it takes") {
    known = changed(good, [](LtRecipe& recipe) { --recipe.algorithm.workspace_bytes; });
    checks = 1;
  }
  SUBCASE("it takes more scratch than it did") {
    fake_lt::state().check_says[2] = (1 << 20) + 1;
    checks = 1;
  }
  SUBCASE("more scratch than any may have") {
    known = changed(good, [](LtRecipe& recipe) {
      recipe.algorithm.workspace_bytes = ai::kernels::kLtWorkspaceBytes + 1;
    });
  }
  SUBCASE("a family that does not exist") {
    known.name = "lt_other/1";
  }
  SUBCASE("a family that searches for nothing") {
    known.name = "epilogue";
  }
  SUBCASE("a family of another direction") {
    known.name = "lt_gemm/1";
  }
  SUBCASE("no variant") {
    known.name = "lt_fused";
  }
  SUBCASE("an empty variant") {
    known.name = "lt_fused/";
  }
  SUBCASE("a variant that is no number") {
    known.name = "lt_fused/1\n";
  }
  SUBCASE("a variant that is no number of ours") {
    known.name = "lt_fused/12345";
  }
  SUBCASE("a name that begins like a family") {
    known.name = "lt_fusedx/1";
  }
  SUBCASE("a family that does not apply") {
    call.Z = o.z.tensor();
  }
  SUBCASE("cuBLASLt has the epilogue no more") {
    fake_lt::state().knows_epilogues = false;
    checks = 1;
  }

  // What a backend that was told nothing finds.
  const fake_lt::State as_it_is = fake_lt::state();
  const auto other = fake_device::fresh_backend();
  fake_lt::state().knows_epilogues = as_it_is.knows_epilogues;
  const Names all = fake_device::names(lower(*other, call));
  fake_lt::state() = as_it_is;
  fake_lt::state().checks.clear();
  fake_lt::state().questions.clear();

  const Task task = recall(*backend, call, known);
  CHECK_FALSE(task.recalled);
  CHECK(fake_device::names(task) == all);
  CHECK(task.queries > 0);
  CHECK(task.queries == fake_lt::state().questions.size());
  CHECK(fake_lt::state().checks.size() == checks);
}

TEST_CASE("an algorithm is not recalled for operands that are less aligned than its own were") {
  const Operands o;
  const auto backend = fake_device::fresh_backend();
  const Matrix a(kM, kK, 1, 1), b(kK, kN, 3, 1), y(kM, kN, 4, 1), c(kM, kN, 2, 1);
  GemmForward call = o.call();
  call.C = o.c.tensor();
  call.attrs.beta = 1.0F;
  const RecalledCandidate known = stored(lower(*backend, call).candidates.back());
  REQUIRE(recall(*backend, call, known).recalled);
  GemmForward other = call;
  SUBCASE("A") {
    other.A = a.tensor();
  }
  SUBCASE("B") {
    other.B = b.tensor();
  }
  SUBCASE("C") {
    other.C = c.tensor();
  }
  SUBCASE("Y") {
    other.Y = y.tensor();
  }
  const Task task = recall(*backend, other, known);
  CHECK_FALSE(task.recalled);
  CHECK(task.queries == 3);
  // The other way round all is well: what was found for less is good for more.
  CHECK(recall(*backend, call, stored(lower(*backend, other).candidates.back())).recalled);
}
