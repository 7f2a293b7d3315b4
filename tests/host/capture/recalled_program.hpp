#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuned_program.hpp"
#include "tuning_support.hpp"

namespace ai::test {

/// A backend that does each forward plan in some ways and makes any of them again by its recipe.
class RecallingBackend final : public Backend {
 public:
  RecallingBackend(FakeCuda& fake, std::vector<Way> all) : ways(std::move(all)), fake_(fake) {}

  Result<std::string> libraries() override { return std::string("fakeBLAS 1.2"); }

  std::vector<Way> ways;
  std::string without_recipe;  ///< this one has to be searched for
  std::string forgotten;       ///< this one's recipe is of no use any more
  std::string with_scratch;    ///< this one writes scratch
  std::string sociable;        ///< this one is quicker behind a step that is not itself
  double in_company_us = 0;    ///< as quick as this
  std::string only_once;       ///< this one is found by the first search alone
  std::string fails_again;     ///< this one can be prepared as the first search made it alone
  bool staged = false;         ///< a task before each copies A into storage of the item's
  int asked = 0;               ///< how often something could have been recalled

 private:
  Result<std::vector<Task>> lower_run(std::span<const GemmPlan> run,
                                      const Recall& recall) override {
    std::vector<Task> tasks;
    GemmPlan plan = run.front();
    if (staged) tasks.push_back(stage(plan));
    Result<Task> task = lower_product(plan, recall, tasks.size());
    AI_RETURN_IF_ERROR(task.status());
    tasks.push_back(*std::move(task));
    return tasks;
  }

  /// A task that copies A into storage of the item's, from where `plan` then takes it.
  Task stage(GemmPlan& plan) {
    GemmForward call = plan.forward();
    const MemoryRange from = range_of(call.A);
    const std::size_t bytes = from.end() - from.begin;
    void* const storage = symbolic::allocate(bytes);
    const auto body = [this, bytes, a = call.A.data, storage](const AddressMap& addresses,
                                                              Stream stream) -> Status {
      const auto copy = [to = addresses(storage), source = addresses(a), bytes] {
        std::memcpy(to, source, bytes);
      };
      (void)fake_.work(stream, cudaGraphNodeTypeKernel, 1, copy);
      return {};
    };
    Task task;
    task.name = "stage";
    task.candidates = {candidate(
        "stage", std::make_shared<TestStep>("stage", std::vector{from},
                                            std::vector{range_of(storage, bytes)}, body))};
    call.A.data = storage;
    plan = *plan_forward(call);
    return task;
  }

  Result<Task> lower_product(const GemmPlan& plan, const Recall& recall, std::size_t index) {
    Task task;
    task.name = "forward Y[" + std::to_string(plan.m()) + "," + std::to_string(plan.n()) + "]";
    if (recall) {
      ++asked;
      if (const RecalledCandidate* const known = recall(index)) {
        for (const Way& way : ways) {
          if (way.name != known->name || known->recipe != recipe_of(way)) continue;
          if (way.name == forgotten) continue;
          task.candidates = {made(plan, way)};
          task.candidates.front().trusted = false;
          task.recalled = true;
          return task;
        }
      }
    }
    task.queries = 1;
    for (const Way& way : ways) {
      if (way.name == only_once && searched_) continue;
      Way mine = way;
      if (way.name == fails_again && searched_) mine.flaw = Flaw::FailsToPrepare;
      task.candidates.push_back(made(plan, mine));
    }
    searched_ = true;
    return task;
  }

  [[nodiscard]] std::string recipe_of(const Way& way) const {
    return way.name == without_recipe ? std::string() : std::string("make ") + way.name;
  }
  [[nodiscard]] Candidate made(const GemmPlan& plan, const Way& way) const {
    Candidate made =
        candidate(way.name,
                  sociable.empty() ? gemm_step(fake_, plan, way.name, way.takes_us, way.flaw)
                                   : sociable_step(plan, way),
                  way.trusted);
    made.recipe = recipe_of(way);
    if (way.name == with_scratch) {
      made.steps.push_back(std::make_shared<TestStep>(
          "scratch", std::vector<MemoryRange>{}, std::vector{range_of(symbolic::allocate(64), 64)},
          [](const AddressMap&, Stream) { return Status(); }));
    }
    return made;
  }

  [[nodiscard]] std::shared_ptr<TestStep> sociable_step(const GemmPlan& plan,
                                                        const Way& way) const {
    const auto alone = gemm_step(fake_, plan, way.name, way.takes_us, way.flaw);
    const auto company =
        way.name == sociable ? gemm_step(fake_, plan, way.name, in_company_us, way.flaw) : alone;
    (void)alone->prepare();
    (void)company->prepare();
    const auto body = [last = last_, alone, company](const AddressMap& addresses, Stream stream) {
      const bool is_alone = std::exchange(*last, alone.get()) == alone.get();
      return (is_alone ? alone : company)->enqueue(addresses, stream);
    };
    return std::make_shared<TestStep>(way.name, alone->reads(), alone->writes(), body);
  }

  FakeCuda& fake_;
  bool searched_ = false;
  std::shared_ptr<const Step*> last_ = std::make_shared<const Step*>(nullptr);
};

/// Captures of programs with a tuning file of their own.
struct Recalled {
  explicit Recalled(std::vector<Way> ways = {{"slow", 5}, {"quick", 2}, {"plain", 4}})
      : backend(fake, std::move(ways)) {
    options.tuning_cache = folder / "tuning.json";
    options.on_tuning_warning = [this](const Status& status) {
      warnings.push_back(status.to_string());
    };
  }
  /// Appends a layer Y[m,5] to the program.
  void add(std::int64_t m = 3) {
    layers.emplace_back(fake, m, 5, 7);
    REQUIRE(program.add(layers.back().plan()).ok());
  }
  Executable capture(double budget_s = 10.0) {
    if (layers.empty()) add();
    const bool measure = options.tuning != Tuning::Off;
    detail::TunerSettings tuner = settings(fake, measure, budget_s);
    tuner.on_progress = options.on_tuning_progress;
    Result<Executable> made =
        detail::capture_with(FakeCuda::api(), backend, program, options, tuner);
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    for (const Layer& layer : layers) Layer::fill(layer.call.Y, -1.0F);
    REQUIRE(made->launch(nullptr).ok());
    for (const Layer& layer : layers) CHECK(layer.y() == 14.0F);
    return std::move(*made);
  }
  /// The node of the first layer.
  std::string chosen(double budget_s = 10.0) { return capture(budget_s).nodes()[0].name; }
  [[nodiscard]] bool has_file() const { return tuning::exists(*options.tuning_cache); }
  [[nodiscard]] std::string file() const { return tuning::read_text(*options.tuning_cache); }

  FakeCuda fake;
  tuning::Folder folder;
  RecallingBackend backend;
  CaptureOptions options;
  std::vector<std::string> warnings;
  std::vector<Layer> layers;
  Program program;
};

}  // namespace ai::test
