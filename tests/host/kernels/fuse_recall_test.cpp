#include <filesystem>
#include <fstream>

#include "fuse_support.hpp"
#include "support/temporary_folder.hpp"

using namespace fuse_test;
using ai::cuda::test::FakeNvrtc;

namespace {

const std::vector<std::int64_t> kJet = {16, 64, 32, 32, 5};

Task recall(ai::Backend& backend, const Chain& chain, const RecalledCandidate& known,
            const FuseOptions& options = {}) {
  return fuse(backend, {chain.run()}, options, [&](std::size_t run) {
    CHECK(run == 0);
    return &known;
  })[0];
}

}  // namespace

TEST_CASE("each candidate's recipe gives it back alone") {
  const Chain chain(kJet);
  const auto first = fresh_backend();
  std::vector<RecalledCandidate> stored;
  std::string name;
  {
    const Task task = fuse(*first, {chain.run()})[0];
    name = task.name;
    for (const Candidate& one : task.candidates) stored.push_back({one.name, one.recipe});
  }
  REQUIRE(stored.size() == 8);
  for (const RecalledCandidate& known : stored) {
    CAPTURE(known.name);
    const auto backend = fresh_backend();
    const Task task = recall(*backend, chain, known);
    CHECK(task.name == name);
    CHECK(task.recalled);
    CHECK(task.compiled == 1);
    REQUIRE(task.candidates.size() == 1);
    CHECK(task.candidates[0].name == known.name);
    CHECK(task.candidates[0].recipe == known.recipe);
    CHECK(task.candidates[0].steps.size() == 1);
  }
}

TEST_CASE("what cannot be used is passed over") {
  const Chain chain(kJet);
  for (const RecalledCandidate& known :
       {RecalledCandidate{"chain/3x1x64x1", "chain 3 1 64 1 0 0"},
        RecalledCandidate{"chain/1x1x64x1", "chain 1 1 64 1 0 0 "},
        RecalledCandidate{"chain/1x1x64x1", "chain 1 1 128 1 0 0"},  // another's
        RecalledCandidate{"layers", ""},
        RecalledCandidate{"chain/1x1x32x1", "chain 1 1 32 1 0 0"}}) {  // 166 weights a thread
    CAPTURE(known.recipe);
    const auto backend = fresh_backend();
    if (known.recipe == "chain 1 1 32 1 0 0") fake_chain::state().shared_bytes = 1200;
    const Task task = recall(*backend, chain, known);
    CHECK_FALSE(task.recalled);
    if (known.recipe != "chain 1 1 32 1 0 0") CHECK(applicable(task).size() == 8);
  }
}

TEST_CASE("a recalled shape that compiles no more is searched for") {
  const Chain chain(kJet);
  const auto backend = fresh_backend();
  compiling().refuses = "kShape = {1, 1, 192, 1, false, 0}";
  const Task task = recall(*backend, chain, {"chain/1x1x192x1", "chain 1 1 192 1 0 0"});
  CHECK_FALSE(task.recalled);
  CHECK(applicable(task).size() >= 7);
  CHECK(task.compiled == 9);
  CHECK(static_cast<std::size_t>(FakeNvrtc::compiled) == task.compiled);
}

TEST_CASE("what was recalled for one run leaves the search for another") {
  const Chain one(kJet), other({16, 32, 5});
  const auto backend = fresh_backend();
  const RecalledCandidate known = {"chain/1x1x128x1", "chain 1 1 128 1 0 0"};
  const std::vector<Task> tasks =
      fuse(*backend, {one.run(), other.run()}, {},
           [&](std::size_t run) { return run == 1 ? &known : nullptr; });
  CHECK_FALSE(tasks[0].recalled);
  CHECK(tasks[0].candidates.size() == 8);
  CHECK(tasks[1].recalled);
  CHECK(fake_device::names(tasks[1]) == Names{known.name});
}

TEST_CASE("the folder gives a second process all its kernels, without the compiler") {
  const TemporaryFolder folder;
  const FuseOptions options{.kernel_folder = folder / "kernels"};
  const Chain chain(kJet);
  {
    const auto backend = fresh_backend();
    CHECK(fuse(*backend, {chain.run()}, options)[0].compiled == 8);
  }
  const auto backend = fresh_backend();
  compiling().missing = {ai::StatusCode::Unsupported, "no compiler"};
  const Task task = fuse(*backend, {chain.run()}, options)[0];
  CHECK(task.compiled == 0);
  CHECK(task.compile_s == 0);
  CHECK(compiling().loads == 0);
  CHECK(applicable(task).size() == 8);
}

TEST_CASE("without the compiler, what the folder has serves, and one candidate names the rest") {
  const TemporaryFolder folder;
  const FuseOptions some{.most = 3, .kernel_folder = folder / "kernels"};
  const Chain chain(kJet);
  {
    const auto backend = fresh_backend();
    CHECK(fuse(*backend, {chain.run()}, some)[0].compiled == 3);
  }
  const auto backend = fresh_backend();
  compiling().missing = {ai::StatusCode::Unsupported, "no compiler"};
  const Task task = fuse(*backend, {chain.run()}, {.kernel_folder = folder / "kernels"})[0];
  CHECK(applicable(task).size() == 3);
  CHECK(task.candidates.size() == 4);
  CHECK(forward_test::reason_of(task, "chain") == "no compiler");
}

TEST_CASE("a folder that cannot be written is no failure, and is told once") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "in the way";
  const auto backend = fresh_backend();
  const Chain chain(kJet);
  std::vector<std::string> problems;
  FuseOptions options{.kernel_folder = folder / "file/kernels"};
  options.on_problem = [&](const ai::Status& status) { problems.push_back(status.message()); };
  CHECK(applicable(fuse(*backend, {chain.run()}, options)[0]).size() == 8);
  REQUIRE(problems.size() == 1);
  CHECK(forward_test::contains(problems[0], options.kernel_folder));
  options.on_problem = {};
  CHECK(applicable(fuse(*backend, {chain.run()}, options)[0]).size() == 8);
}

TEST_CASE("kernels that living steps hold are neither compiled nor loaded again") {
  const Chain chain(kJet), same(kJet);
  const auto backend = fresh_backend();
  const Task first = fuse(*backend, {chain.run()})[0];
  REQUIRE(first.candidates[0].steps[0]->prepare().ok());
  const auto other = ai::kernels::make_backend(fake_device::api(), &fake_lt::load, 0, &load_nvrtc);
  const Task second = fuse(*other, {same.run()})[0];
  CHECK(second.compiled == 0);
  REQUIRE(second.candidates[0].steps[0]->prepare().ok());
  CHECK(FakeNvrtc::compiled == 8);
  CHECK(fake_chain::state().loads == 1);
  // A node may be given the parameters of another that runs the same function, and no other's.
  for (const Task* task : {&first, &second}) {
    REQUIRE(task->candidates[0].steps[0]->enqueue({}, nullptr).ok());
  }
  const auto& launches = fake_chain::state().launches;
  CHECK(launches.at(0).kernel == launches.at(1).kernel);
}
