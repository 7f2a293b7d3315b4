#include "fuse_support.hpp"
#include "support/temporary_folder.hpp"

using namespace fuse_test;

namespace {

std::unique_ptr<ai::Backend> real_compiler() {
  (void)fresh_backend();
  return ai::kernels::make_backend(fake_device::api(), &fake_lt::load, 0);
}

}  // namespace

TEST_CASE("two runs compile side by side with the real compiler, and a second process needs none") {
  const TemporaryFolder folder;
  const FuseOptions options{.most = 2, .kernel_folder = folder / "kernels"};
  const Chain jet({16, 64, 32, 32, 5}), policy({64, 256, 256, 8});
  const std::vector<PlanRun> runs = {jet.run(), policy.run({false, false, true})};
  {
    const auto backend = real_compiler();
    for (const Task& task : fuse(*backend, runs, options)) {
      CAPTURE(task.name);
      CHECK(task.compiled == 2);
      CHECK(task.compile_s > 0);
      CHECK(task.candidates.size() == 2);
      for (const Candidate& candidate : task.candidates) {
        CHECK(candidate.reason == "");
        REQUIRE(candidate.steps.size() == 1);
        CHECK(candidate.steps[0]->prepare().ok());
      }
    }
  }
  const auto backend = fresh_backend();
  compiling().missing = {ai::StatusCode::Unsupported, "no compiler"};
  for (const Task& task : fuse(*backend, runs, options)) {
    CHECK(task.compiled == 0);
    CHECK(applicable(task).size() == 2);
  }
  CHECK(compiling().loads == 0);
}
