#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fake_program.hpp"

namespace ai::test {

struct Way {
  const char* name;
  double takes_us;
  Flaw flaw = Flaw::None;
  bool trusted = true;
  double loads_us = 0;  ///< of its first run only
};

/// A program of one layer (or several equal ones) whose backend knows some ways to do it.
struct Tuned {
  Tuned(FakeCuda& runtime, std::vector<Way> all, int layers = 1)
      : fake(runtime), ways(std::move(all)), backend([this](const GemmPlan& plan) {
          Task task;
          task.name = "forward";
          for (const Way& way : ways) {
            auto step = gemm_step(fake, plan, way.name, way.takes_us, way.flaw, &runs[way.name]);
            if (way.loads_us > 0) step = loading(way, std::move(step));
            task.candidates.push_back(candidate(way.name, std::move(step), way.trusted));
          }
          return std::vector<Task>{task};
        }) {
    for (int i = 0; i < layers; ++i) {
      operands.emplace_back(fake, 3, 5, 7);
      REQUIRE(program.add(operands.back().plan()).ok());
    }
  }

  /// A layer of another shape.
  void add_problem() {
    operands.emplace_back(fake, 4, 5, 7);
    REQUIRE(program.add(operands.back().plan()).ok());
  }

  /// `step`, but the first run of all of `way` takes longer.
  std::shared_ptr<TestStep> loading(const Way& way, std::shared_ptr<TestStep> step) {
    const auto body = [this, &way, step](const AddressMap& addresses, Stream stream) {
      if (runs[way.name] == 0) {
        (void)fake.work(stream, cudaGraphNodeTypeKernel, way.loads_us, [] {});
      }
      if (step->prepared == 0) (void)step->prepare();
      return step->enqueue(addresses, stream);
    };
    return std::make_shared<TestStep>(way.name, step->reads(), step->writes(), body);
  }

  /// The text of explain(), or of the error.
  std::string capture(bool measure, double budget_s = 10.0) {
    const double begin = fake.seconds();
    Result<Executable> made = detail::capture_with(FakeCuda::api(), backend, program, {},
                                                   settings(fake, measure, budget_s));
    took_s = fake.seconds() - begin;
    if (!made.ok()) return made.status().to_string();
    nodes = made->nodes();
    CHECK(operands[0].y() == -1.0F);  // never touched before a launch
    CHECK(static_cast<const float*>(operands[0].call.A.data)[0] == 1.0F);
    REQUIRE(made->launch(nullptr).ok());
    CHECK(operands[0].y() == 14.0F);
    return made->explain();
  }
  [[nodiscard]] std::string chosen() const { return nodes.empty() ? "" : nodes[0].name; }

  FakeCuda& fake;
  std::vector<Way> ways;
  FakeBackend backend;
  std::vector<Layer> operands;
  Program program;
  std::vector<Node> nodes;
  std::map<std::string, int> runs;
  double took_s = 0;  // of the fake's clock, for the last capture
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ai::test
