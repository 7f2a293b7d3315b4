#include <set>

#include "fuse_support.hpp"
#include "kernels/chain_form.hpp"
#include "support/temporary_folder.hpp"

using namespace fuse_test;
using ai::cuda::test::FakeNvrtc;
using ai::kernels::chain::parse_form;
using ai::kernels::chain::Shape;
using forward_test::contains;

namespace {

const std::vector<std::int64_t> kJet = {16, 64, 32, 32, 5};

std::string only_reason(const Task& task) {
  REQUIRE(fake_device::names(task) == Names{"chain"});
  CHECK(task.candidates[0].steps.empty());
  CHECK(task.compiled == 0);
  return task.candidates[0].reason;
}

}  // namespace

TEST_CASE("each run gets a task whose candidates carry it out in one step") {
  const auto backend = fresh_backend();
  const Chain chain(kJet);
  const Task task = fuse(*backend, {chain.run()}).front();
  CHECK(task.name == "forward Y[1,5] in 4 layers, 16-64-32-32-5");
  CHECK(task.candidates.size() == 8);
  CHECK_FALSE(task.recalled);
  CHECK(task.queries == 0);
  CHECK(task.compiled == 8);
  CHECK(task.compile_s > 0);
  CHECK(FakeNvrtc::compiled == 8);
  CHECK(FakeNvrtc::alive == 0);
  CHECK(compiling().loads == 1);
  CHECK(fake_lt::state().loads == 0);
  CHECK(fake_chain::state().loads == 0);
  std::set<std::string> names;
  for (const Candidate& candidate : task.candidates) {
    CHECK(candidate.applicable());
    CHECK(candidate.trusted);
    const auto form = parse_form(candidate.recipe);
    REQUIRE(form.has_value());
    CHECK(candidate.name == ai::kernels::chain::name_of(*form));
    CHECK(names.insert(candidate.name).second);
    REQUIRE(candidate.steps.size() == 1);
    CHECK(candidate.steps[0]->name() == "chain of 4 layers");
    // The Ys; and memory of its own, of which nobody else may touch the state.
    const ai::Step& step = *candidate.steps[0];
    CHECK(step.writes().size() >= 4);
    CHECK(step.state().size() <= step.writes().size() - 4);
    CHECK(candidate.steps[0]->prepare().ok());
    CHECK(candidate.steps[0]->enqueue({}, nullptr).ok());
  }
  CHECK(fake_chain::state().launches.size() == 8);
}

TEST_CASE("a deep network's name tells its ends") {
  const auto backend = fresh_backend();
  const Chain chain(std::vector<std::int64_t>{9, 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3, 2});
  CHECK(fuse(*backend, {chain.run()})[0].name ==
        "forward Y[1,2] in 14 layers, 9-1-2-3-4-5-6-...-7-6-5-4-3-2");
}

TEST_CASE("as many candidates as were asked for; one alone has to be surely better") {
  const auto backend = fresh_backend();
  const Chain jet(kJet);
  CHECK(fuse(*backend, {jet.run()}, {.most = 3})[0].candidates.size() == 3);
  CHECK(applicable(fuse(*backend, {jet.run()}, {.most = 1})[0]).size() == 1);
  CHECK(only_reason(fuse(*backend, {jet.run()}, {.most = 0})[0]) == "no candidate was asked for");
  CHECK(applicable(fuse(*backend, {jet.run()})[0]).size() == 8);
  // Each cluster fetches all weights for its few rows: with many rows that is too much.
  const Chain close({64, 256, 256, 8}, 1280);
  CHECK(applicable(fuse(*backend, {close.run()})[0]).size() >= 2);
  const Chain hopeless({64, 256, 256, 8}, 16384);
  for (const std::string& reason : {only_reason(fuse(*backend, {close.run()}, {.most = 1})[0]),
                                    only_reason(fuse(*backend, {hopeless.run()})[0])}) {
    CHECK(reason.starts_with("it would take about "));
    CHECK(contains(reason, " us, a step for each layer about "));
  }
}

TEST_CASE("what the kernel cannot do is told, and nothing is compiled") {
  const auto backend = fresh_backend();
  const Chain chain({16, 8, 4});
  const Matrix c(1, 4);
  PlanRun run = chain.run();
  GemmForward call = chain.calls[1];
  call.C = c.tensor();
  call.attrs.beta = 1.0F;
  run.plans[1] = ai::plan_forward(call).value();
  const Task with_c = fuse(*backend, {run})[0];
  CHECK(only_reason(with_c) == "plan 1 of the run: C takes part");
  CHECK(with_c.name == "forward Y[1,4] in 2 layers");
  const Chain wide({4096, 4096, 4096});
  CHECK(only_reason(fuse(*backend, {wide.run()})[0]) ==
        "no shape of it fits: 33554432 weights and 1 rows go into no kernel's registers and shared "
        "memory");
  const Chain deep(std::vector<std::int64_t>(42, 2));
  CHECK(only_reason(fuse(*backend, {deep.run()})[0]) == "it has 41 layers, more than 40");
  const Chain long_to_compile(std::vector<std::int64_t>(41, 300));
  CHECK(only_reason(fuse(*backend, {long_to_compile.run()})[0]) ==
        "it would take about 6.2 s to compile, and no other shape of it much less");
  CHECK(FakeNvrtc::compiled == 0);
  CHECK(compiling().loads == 0);
  CHECK(fuse(*backend, {}).empty());
}

TEST_CASE("a run that is none, and a plan for another device, are refused") {
  const auto backend = fresh_backend();
  const Chain chain({16, 8, 4});
  PlanRun run = chain.run();
  run.keeps_y.pop_back();
  const auto refused = backend->fuse(std::vector<PlanRun>{run}, {});
  CHECK(refused.status().code() == ai::StatusCode::Invalid);
  CHECK(contains(refused.status().message(), "a run of 2 plans"));
  CHECK(backend->fuse(std::vector<PlanRun>{PlanRun{}}, {}).status().code() ==
        ai::StatusCode::Invalid);
  const auto other = ai::kernels::make_backend(fake_device::api(), &fake_lt::load, 1, &load_nvrtc);
  CHECK(other->fuse(std::vector<PlanRun>{chain.run()}, {}).status().code() ==
        ai::StatusCode::DeviceMismatch);
}

TEST_CASE("kernels that are launched cooperatively can be ruled out") {
  const auto backend = fresh_backend();
  const Chain wide({1024, 1024, 1024});
  const std::vector<Candidate> all = applicable(fuse(*backend, {wide.run()})[0]);
  REQUIRE(!all.empty());
  for (const Candidate& candidate : all) CHECK(!candidate.steps[0]->state().empty());
  const FuseOptions alone{.cooperative = false};
  CHECK(only_reason(fuse(*backend, {wide.run()}, alone)[0]) ==
        "only kernels that are launched cooperatively could serve it; these are ruled out");
  // Nor is one recalled.
  const ai::RecalledCandidate known{all[0].name, all[0].recipe};
  const ai::Recall recall = [&](std::size_t) { return &known; };
  CHECK(fuse(*backend, {wide.run()}, {}, recall)[0].recalled);
  CHECK_FALSE(fuse(*backend, {wide.run()}, alone, recall)[0].recalled);
  const Chain jet(kJet);
  for (const Candidate& candidate : applicable(fuse(*backend, {jet.run()}, alone)[0])) {
    CHECK(candidate.steps[0]->state().empty());
  }
}

TEST_CASE("the best shape of each kernel that can serve is among the candidates") {
  const auto backend = fresh_backend();
  const Chain chain(kJet, 64);
  std::set<std::string> kernels;
  for (const Candidate& candidate : applicable(fuse(*backend, {chain.run()})[0])) {
    kernels.insert(candidate.name.substr(0, candidate.name.find('/')));
  }
  CHECK(kernels == std::set<std::string>{"chain", "rows", "tiles"});
}

TEST_CASE("without the run-time compiler one candidate says so") {
  const auto backend = fresh_backend();
  compiling().missing = {ai::StatusCode::Unsupported, "libnvrtc.so.13 is nowhere"};
  const Chain chain(kJet);
  CHECK(only_reason(fuse(*backend, {chain.run()})[0]) == "libnvrtc.so.13 is nowhere");
}

TEST_CASE("a device without clusters gets none; an old one nothing") {
  const auto backend = fresh_backend();
  fake_chain::state().major = 8;
  const Chain chain({16, 64, 64, 5}, 64);
  const std::vector<Candidate> some = applicable(fuse(*backend, {chain.run()})[0]);
  CHECK(!some.empty());
  for (const Candidate& candidate : some) {
    const auto form = parse_form(candidate.recipe);
    REQUIRE(form.has_value());
    if (const Shape* const shape = std::get_if<Shape>(&*form)) CHECK(shape->cluster == 1);
  }
  fake_chain::state().major = 7;
  fake_chain::state().minor = 5;
  CHECK(only_reason(fuse(*backend, {chain.run()})[0]) ==
        "it needs compute capability 8.0, this device has 7.5");
}

TEST_CASE("equal networks of one call compile once, different ones together") {
  const auto backend = fresh_backend();
  const Chain one(kJet), same(kJet), other({16, 32, 5});
  const std::vector<Task> tasks = fuse(*backend, {one.run(), same.run(), other.run()});
  CHECK(tasks[0].compiled == 8);
  CHECK(tasks[1].compiled == 0);
  CHECK(tasks[1].compile_s == 0);
  CHECK(tasks[2].compiled == applicable(tasks[2]).size());
  CHECK(FakeNvrtc::compiled == static_cast<int>(8 + tasks[2].compiled));
  REQUIRE(fake_device::names(tasks[0]) == fake_device::names(tasks[1]));
  CHECK(tasks[0].candidates[0].steps[0]->prepare().ok());
  CHECK(tasks[1].candidates[0].steps[0]->prepare().ok());
  CHECK(fake_chain::state().loads == 1);
}

TEST_CASE("a shape that does not compile says why; one that spills comes last") {
  const Chain chain(kJet);
  const auto first = fresh_backend();
  const Names names = fake_device::names(fuse(*first, {chain.run()})[0]);
  const auto text_in_source = [](const std::string& name) {  // "chain/1x2x64x1" -> "{1, 2, 64, 1,"
    std::string text = "{" + name.substr(6, name.find("/staged") - 6) + ",";
    for (std::size_t x = text.find('x'); x != std::string::npos; x = text.find('x')) {
      text.replace(x, 1, ", ");
    }
    return text;
  };
  const auto backend = fresh_backend();
  compiling().refuses = "kShape = " + text_in_source(names[2]);
  compiling().spills = "kShape = " + text_in_source(names[0]);
  const Chain same(kJet);
  const std::vector<Task> tasks = fuse(*backend, {chain.run(), same.run()});
  const Task& task = tasks[0];
  const Names now = fake_device::names(task);
  CHECK(fake_device::names(tasks[1]) == now);
  REQUIRE(now.size() == 8);
  CHECK(now.front() == names[2]);
  CHECK(now.back() == names[0]);
  CHECK(now[1] == names[1]);
  CHECK_FALSE(task.candidates.front().applicable());
  CHECK(task.candidates.front().recipe.empty());
  CHECK(contains(task.candidates.front().reason, "nvrtcCompileProgram failed"));
  CHECK(contains(task.candidates.front().reason, "ptxas info"));
  CHECK(task.candidates.back().applicable());
  CHECK(task.compiled == 8);
}

TEST_CASE("a plan can be fused where the kernel can do it") {
  const auto backend = fresh_backend();
  Chain chain({4, 5, 3});
  for (const auto& plan : chain.run().plans) CHECK(backend->can_fuse(plan));
  chain.calls[1].C = chain.y[1].tensor();
  chain.calls[1].attrs.beta = 1;
  CHECK(backend->can_fuse(chain.run().plans[0]));
  CHECK_FALSE(backend->can_fuse(chain.run().plans[1]));
  CHECK(backend->most_fused() == 40);
}

TEST_CASE("of few candidates, each kernel that can serve has one") {
  const auto backend = fresh_backend();
  const Chain wide({479, 1024, 512, 256, 1});
  const Task task = fuse(*backend, {wide.run()}, {.most = 2})[0];
  REQUIRE(applicable(task).size() == 2);
  std::set<std::string> kernels;
  for (const std::string& name : fake_device::names(task)) {
    kernels.insert(name.substr(0, name.find('/')));
  }
  CHECK(kernels == std::set<std::string>{"chain", "grid"});
}

TEST_CASE("a plan alone may be worth it where no step of its own does all of it") {
  const auto backend = fresh_backend();
  const auto alone = [&](std::int64_t rows, ai::ActKind act, bool with_z = false) {
    Chain chain({40, 50}, rows);
    const Matrix z(rows, 50);
    chain.calls[0].attrs.act = act;
    if (with_z) chain.calls[0].Z = z.tensor();
    return backend->can_fuse_alone(chain.run().plans[0]);
  };
  CHECK_FALSE(alone(64, ai::ActKind::None));
  CHECK_FALSE(alone(64, ai::ActKind::ReLU));
  CHECK(alone(64, ai::ActKind::Tanh));
  CHECK(alone(64, ai::ActKind::ReLU, true));
  CHECK_FALSE(alone(4, ai::ActKind::Tanh));  // few rows have a kernel with all that follows
}
