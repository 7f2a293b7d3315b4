// How many steps of a program may run at once: measured, kept, used.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "recalled_program.hpp"

namespace ai::test {
namespace {

/// A GPU on which every node that waits for none costs `each_us` more.
auto dear_roots(double each_us) {
  return [each_us](std::size_t nodes, const FakeCuda::Edges& edges) {
    std::vector<bool> waits(nodes);
    for (const auto& [from, to] : edges) waits.at(to) = true;
    return each_us * static_cast<double>(std::count(waits.begin(), waits.end(), false));
  };
}

/// Three layers that have nothing to do with each other, and steps of the caller's between them.
struct Ordered : Recalled {
  explicit Ordered(std::vector<Way> ways = {{"only", 5}}) : Recalled(std::move(ways)) {
    add();
    UserStep step;
    step.name = "look";
    step.reads = {layers[0].call.Y};
    step.writes = {layers[0].call.Y};
    step.cuda = [this](const StepContext& context) -> Status {
      ++user_calls;
      (void)fake.work(context.stream, cudaGraphNodeTypeKernel, 1, [this] { ++user_runs; });
      return {};
    };
    REQUIRE(program.add(step).ok());
    add();
    add();
  }
  int user_calls = 0;
  int user_runs = 0;
};

std::vector<std::vector<int>> edges_of(const Executable& executable) {
  std::vector<std::vector<int>> edges;
  for (const Node& node : executable.nodes()) edges.push_back(node.depends_on);
  return edges;
}

const std::vector<std::vector<int>> kFree = {{}, {0}, {}, {}};
const std::vector<std::vector<int>> kOneLane = {{}, {0}, {0}, {2}};

TEST_CASE("where forks are dear, fewer lanes win; the next start knows, and makes the same graph") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(3.0);
  const Executable first = r.capture();
  CHECK(edges_of(first) == kOneLane);
  CHECK(first.tuning().orders_timed == 3);  // four lanes and three are no limit
  CHECK(first.tuning().candidates_timed == 0);
  CHECK_MESSAGE(has(first.explain(), "\norder: 1 lane 19.00 us, unlimited 25.00 us\n"),
                first.explain());

  r.fake.forget_calls();
  const Executable second = r.capture();
  CHECK(second.tuning().orders_timed == 0);
  CHECK(r.fake.count("event_record") == 0);
  CHECK(r.fake.count("mem_get_info") == 0);
  CHECK(second.dot() == first.dot());
  CHECK_MESSAGE(has(second.explain(),
                    "order: 1 lane 19.00 us, unlimited 25.00 us (from the "
                    "tuning file " +
                        *r.options.tuning_cache + ")\n"),
                second.explain());
  CHECK(r.warnings.empty());
}

TEST_CASE("a step of the caller's that nothing waits for runs beside the layers of one lane") {
  Recalled r({{"only", 5}});
  r.fake.graph_takes_us = dear_roots(3.0);
  r.add();
  const Layer apart(r.fake, 3, 5, 7);
  UserStep step;
  step.name = "long";
  step.writes = {apart.call.Y};
  step.cuda = [&](const StepContext& context) -> Status {
    (void)r.fake.work(context.stream, cudaGraphNodeTypeKernel, 1000, [] {});
    return {};
  };
  REQUIRE(r.program.add(step).ok());
  r.add();
  for (int start = 0; start < 2; ++start) {
    const Executable made = r.capture();
    CHECK_MESSAGE(has(made.explain(), "order: 1 lane"), made.explain());
    CHECK(edges_of(made) == std::vector<std::vector<int>>{{}, {}, {0}});
  }
}

TEST_CASE("without a gain of two per cent the order stays that of the data flow") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(0.1);
  const Executable first = r.capture();
  CHECK(edges_of(first) == kFree);
  CHECK_MESSAGE(has(first.explain(), "\norder: unlimited 16.30 us, 1 lane 16.10 us\n"),
                first.explain());
  r.fake.graph_takes_us = dear_roots(3.0);
  CHECK(edges_of(r.capture()) == kFree);  // as it is known
  r.options.tuning = Tuning::Remeasure;
  CHECK(edges_of(r.capture()) == kOneLane);
  r.options.tuning = Tuning::Measure;
  CHECK(edges_of(r.capture()) == kOneLane);
}

TEST_CASE("Tuning::Off times no order and knows none") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(3.0);
  (void)r.capture();
  r.fake.forget_calls();
  r.options.tuning = Tuning::Off;
  const Executable made = r.capture();
  CHECK(edges_of(made) == kFree);
  CHECK(made.tuning().orders_timed == 0);
  CHECK(r.fake.count("event_record") == 0);
  CHECK(!has(made.explain(), "order:"));
}

TEST_CASE("a program of one step, or one whose steps wait for each other, is not timed whole") {
  Recalled r({{"only", 5}});
  r.add();
  r.layers.emplace_back(r.fake, 3, 5, 7);
  r.layers[1].call.B = r.layers[0].call.B;
  r.layers[1].call.Y = r.layers[0].call.Y;  // written by both
  SUBCASE("one") {}
  SUBCASE("a chain") {
    REQUIRE(r.program.add(r.layers[1].plan()).ok());
  }
  const Executable made = r.capture();
  CHECK(made.tuning().orders_timed == 0);
  CHECK(r.fake.count("mem_get_info") == 0);
  CHECK(!has(made.explain(), "order:"));
  CHECK(!r.has_file());
}

TEST_CASE(
    "steps and copies of the caller's do not run while orders are timed, but keep their place") {
  Ordered r;
  float* const host = static_cast<float*>(r.fake.operand(60, 0, cudaMemoryTypeHost));
  std::fill_n(host, 15, -3.0F);
  Tensor to = r.layers[0].call.Y;
  to.data = host;
  to.device = Device::CPU;
  REQUIRE(r.program.copy_out(r.layers[0].call.Y, to).ok());
  r.fake.graph_takes_us = dear_roots(3.0);
  Result<Executable> made = detail::capture_with(FakeCuda::api(), r.backend, r.program, r.options,
                                                 settings(r.fake, true));
  REQUIRE_MESSAGE(made.ok(), made.status().to_string());
  CHECK(made->tuning().orders_timed > 1);
  CHECK(r.user_calls == 1);  // for the graph
  CHECK(r.user_runs == 0);
  CHECK(host[0] == -3.0F);
  for (const Layer& layer : r.layers) CHECK(layer.y() == -1.0F);
  const std::vector<std::vector<int>> expected = {{}, {0}, {0}, {2}, {1}};
  CHECK(edges_of(*made) == expected);
  REQUIRE(made->launch(nullptr).ok());
  CHECK(r.user_runs == 1);
  CHECK(host[0] == 14.0F);
}

TEST_CASE("without time the order stays that of the data flow, until a capture has more") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(3.0);
  const Executable none = r.capture(1e-6);
  CHECK(edges_of(none) == kFree);
  CHECK(none.tuning().orders_timed < 3);
  CHECK_MESSAGE(has(none.explain(), "order: as the data flow allows (not timed: the tuning budget"),
                none.explain());
  r.fake.forget_calls();
  const Executable again = r.capture(1e-6);
  CHECK(r.fake.count("event_record") == 0);
  CHECK_MESSAGE(has(again.explain(), "order: as the data flow allows (from the tuning file "),
                again.explain());
  CHECK(edges_of(r.capture()) == kOneLane);
  CHECK(edges_of(r.capture(1e-6)) == kOneLane);
}

TEST_CASE("a budget of nothing times no order and keeps none") {
  Ordered r;
  CHECK(edges_of(r.capture(0)) == kFree);
  CHECK(r.fake.count("event_record") == 0);
  CHECK(!r.has_file());
}

TEST_CASE("where scratch would take too much, or CUDA fails, the order is that of the data flow") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(3.0);
  std::string why;
  SUBCASE("memory") {
    r.fake.free_bytes = 4096;
    why = "bytes is more than can be had";
  }
  SUBCASE("a call") {
    r.fake.fail("event_elapsed_time", 1, cudaErrorUnknown);
    why = "cudaEventElapsedTime";
  }
  SUBCASE("a capture") {
    r.fake.fail("stream_begin_capture_to_graph", 1, cudaErrorUnknown);
    why = "cudaStreamBeginCaptureToGraph";
  }
  const Executable made = r.capture();
  CHECK(edges_of(made) == kFree);
  CHECK_MESSAGE(has(made.explain(), "order: as the data flow allows (not timed: "), made.explain());
  CHECK_MESSAGE(has(made.explain(), why), made.explain());
  CHECK(r.fake.last_error == cudaSuccess);
  CHECK(!r.has_file());
}

TEST_CASE("a rebind, in place or not, and a clone keep the lanes") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(3.0);
  Executable made = r.capture();
  const std::string dot = made.dot();
  const Layer other(r.fake, 3, 5, 7);
  REQUIRE(made.rebind({{r.layers[1].call.Y.data, other.call.Y.data}}).ok());
  CHECK(made.dot() == dot);
  REQUIRE(made.launch(nullptr).ok());
  CHECK(other.y() == 14.0F);

  // Now the third layer reads what the first has written: another order of the data.
  Layer::fill(r.layers[0].call.Y, 0.0F);
  const Layer wide(r.fake, 3, 5, 7);
  REQUIRE(made.rebind({{r.layers[2].call.Y.data, r.layers[0].call.Y.data}}).ok());
  CHECK(edges_of(made) == std::vector<std::vector<int>>{{}, {0}, {0}, {1, 2}});
  CHECK_MESSAGE(has(made.explain(), "order: 1 lane"), made.explain());

  const Result<Executable> clone = made.clone();
  REQUIRE(clone.ok());
  CHECK(clone->dot() == made.dot());
  CHECK(clone->explain() == made.explain());
}

TEST_CASE("temporaries share memory where lanes put their users one after the other") {
  for (const bool in_one_lane : {true, false}) {
    FakeCuda fake;
    fake.graph_takes_us = dear_roots(in_one_lane ? 3.0 : 0.0);
    RecallingBackend backend(fake, {{"only", 5}});
    std::vector<Layer> layers;
    Program program;
    for (int i = 0; i < 2; ++i) {
      layers.emplace_back(fake, 3, 5, 7);
      Layer second(fake, 3, 5, 5);
      const Result<Tensor> hidden = program.temporary(layers.back().call.Y.desc);
      REQUIRE(hidden.ok());
      layers.back().call.Y = *hidden;
      second.call.A = *hidden;
      REQUIRE(program.add(layers.back().plan()).ok());
      REQUIRE(program.add(second.plan()).ok());
      layers.push_back(std::move(second));
    }
    CaptureOptions options;
    options.tuning_cache = "";
    Result<Executable> made =
        detail::capture_with(FakeCuda::api(), backend, program, options, settings(fake, true));
    REQUIRE_MESSAGE(made.ok(), made.status().to_string());
    CHECK(made->workspace_bytes() == (in_one_lane ? 256 : 512));
    REQUIRE(made->launch(nullptr).ok());
    CHECK(layers[1].y() == 5 * 14 * 2.0F);
    CHECK(layers[3].y() == 5 * 14 * 2.0F);
  }
}

TEST_CASE("an entry that names no number of lanes is measured anew") {
  Ordered r;
  r.fake.graph_takes_us = dear_roots(3.0);
  (void)r.capture();
  std::string text = r.file();
  const std::size_t at = text.find("\"lanes 1\"");
  REQUIRE(at != std::string::npos);
  for (const char* recipe : {"\"lanes 99\"", "\"lanes -1\"", "\"lanes\"", "\"lanes 1x\"", "\"\""}) {
    tuning::write_text(*r.options.tuning_cache, std::string(text).replace(at, 9, recipe));
    CAPTURE(recipe);
    const Executable made = r.capture();
    CHECK(made.tuning().orders_timed == 3);
    CHECK(edges_of(made) == kOneLane);
  }
}

}  // namespace
}  // namespace ai::test
