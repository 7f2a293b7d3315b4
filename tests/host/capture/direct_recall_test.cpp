// What the direct path takes from the tuning file.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "capture/direct_path.hpp"
#include "recalled_program.hpp"

namespace ai::test {
namespace {

using detail::DirectCall;
using detail::DirectPath;

/// The backend behind the path; the path makes one after the other.
RecallingBackend*& shared() {
  static RecallingBackend* backend = nullptr;
  return backend;
}

class SharedBackend final : public Backend {
 public:
  Result<std::string> libraries() override { return shared()->libraries(); }

 private:
  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& recall) override {
    Result<std::vector<Task>> tasks = shared()->lower(run, recall);
    if (tasks.ok()) queries += tasks->front().queries;
    return tasks;
  }

 public:
  static inline std::size_t queries = 0;
};

struct DirectRecall : Recalled {
  DirectRecall() : Recalled({{"slow", 5}, {"quick", 2, Flaw::None, false}, {"plain", 4}}) {
    shared() = &backend;
    SharedBackend::queries = 0;
    REQUIRE(set_tuning_cache_path(*options.tuning_cache).ok());
    add();
  }
  ~DirectRecall() {
    (void)set_tuning_cache_path(std::nullopt);
    path.reset();
    CHECK(settled(fake) == "");
  }
  /// Runs the first layer's call and says how long the device took.
  double run(const GemmForward& call) {
    Layer::fill(call.Y, -1.0F);
    const double begin = fake.seconds();
    const Status status = path->run(DirectCall(call), stream);
    CHECK_MESSAGE(status.ok(), status.to_string());
    CHECK(static_cast<const float*>(call.Y.data)[0] == 14.0F);
    return (fake.seconds() - begin) * 1e6;
  }
  /// What a known call takes.
  double again(const GemmForward& call) {
    (void)run(call);
    return run(call);
  }

  Stream stream = fake.make_stream();
  std::unique_ptr<DirectPath> path = std::make_unique<DirectPath>(
      FakeCuda::api(),
      [](int) -> std::unique_ptr<Backend> { return std::make_unique<SharedBackend>(); });
};

TEST_CASE("a direct call takes what a capture of the same call has measured") {
  DirectRecall r;
  SUBCASE("known") {
    (void)r.capture();
    const double quick = r.again(r.layers[0].call);
    CHECK(SharedBackend::queries == 0);
    CHECK(quick < 4);
  }
  SUBCASE("not known: table order, and nothing is measured or stored") {
    const double slow = r.again(r.layers[0].call);
    CHECK(SharedBackend::queries == 1);
    CHECK(slow > 4.5);
    CHECK(!r.has_file());
  }
}

TEST_CASE("the direct path's problems are those of captures, whatever the alignment") {
  DirectRecall r;
  for (const std::size_t shift : {0U, 4U, 16U, 128U}) {
    GemmForward call = r.layers[0].call;
    call.A.data = static_cast<std::byte*>(r.fake.operand(3 * 7 * sizeof(float) + shift)) + shift;
    Layer::fill(call.A, 1.0F);
    const Result<GemmPlan> plan = plan_forward(call);
    REQUIRE(plan.ok());
    Program program;
    REQUIRE(program.add(*plan).ok());
    SharedBackend::queries = 0;
    (void)r.run(call);
    CHECK(SharedBackend::queries == 1);
    r.path->clear();
    REQUIRE(capture_fake(r.fake, r.backend, program, true, r.options).ok());
    (void)r.run(call);
    CHECK(SharedBackend::queries == 1);
    // In place is a problem of its own.
    call.C = call.Y;
    call.attrs.beta = 1;
    CHECK(r.path->run(DirectCall(call), r.stream).ok());
    CHECK(SharedBackend::queries == 2);
  }
}

TEST_CASE("a direct call in place takes what a capture of it has measured") {
  DirectRecall r;
  GemmForward call = r.layers[0].call;
  call.C = call.Y;
  call.attrs.beta = 1;
  const Result<GemmPlan> plan = plan_forward(call);
  REQUIRE(plan.ok());
  Program program;
  REQUIRE(program.add(*plan).ok());
  REQUIRE(capture_fake(r.fake, r.backend, program, true, r.options).ok());
  (void)r.run(call);
  CHECK(SharedBackend::queries == 0);
}

TEST_CASE("the file is looked at where a problem is planned, not where it is known") {
  DirectRecall r;
  (void)r.capture();
  (void)r.run(r.layers[0].call);
  tuning::write_text(*r.options.tuning_cache, "{");
  r.backend.asked = 0;
  for (int i = 0; i < 20; ++i) (void)r.run(r.layers[0].call);
  CHECK(r.backend.asked == 0);
}

TEST_CASE("a recalled candidate that cannot be prepared leaves the direct path its own choice") {
  DirectRecall r;
  (void)r.capture();
  r.backend.ways[1].flaw = Flaw::FailsToPrepare;
  CHECK(r.again(r.layers[0].call) > 4.5);
  CHECK(SharedBackend::queries == 1);
}

TEST_CASE("in a capture of the caller's, a recalled candidate with scratch gives way to others") {
  DirectRecall r;
  r.backend.with_scratch = "quick";
  CHECK(r.chosen() == "quick");
  CHECK(r.again(r.layers[0].call) < 4);
  CHECK(SharedBackend::queries == 0);
  r.fake.begin_capture(r.stream);
  CHECK(r.path->run(DirectCall(r.layers[0].call), r.stream).ok());
  CHECK(r.fake.end_capture(r.stream));
  CHECK(SharedBackend::queries == 1);
  CHECK(r.fake.count("user_object_create") == 0);
}

}  // namespace
}  // namespace ai::test
