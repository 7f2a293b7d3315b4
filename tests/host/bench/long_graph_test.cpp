// The check of graphs with many copies of a step, over results that the test makes up.
#include "bench/long_graph.hpp"

#include <doctest/doctest.h>

#include "bench/errors.hpp"
#include "bench_support.hpp"

namespace {

using bench::Checked;
using bench::Mode;

Checked result_of(Mode mode, float error) {
  bench::HostNetwork net = support::run_step({"test", {9, 17, 5}, ai::ActKind::ReLU, 7, mode});
  net.layers[0].y.values[3] += error;
  return bench::check_network(net, true);
}

TEST_CASE("a long graph is checked once, and may be measured as often as is asked for") {
  for (const Mode mode : {Mode::Forward, Mode::ForwardBackward}) {
    bench::LongGraphCheck check;
    int runs = 0;
    for (int i = 0; i < 3; ++i) {
      check.demand(mode, [&] {
        ++runs;
        return result_of(mode, 0);
      });
    }
    CHECK(runs == 1);
  }
}

TEST_CASE("a long graph with a wrong result is refused every time, with what is wrong") {
  for (const Mode mode : {Mode::Forward, Mode::ForwardBackward}) {
    bench::LongGraphCheck check;
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_WITH_AS(check.demand(mode, [&] { return result_of(mode, 0.5F); }),
                           doctest::Contains("wrong result of 32 copies: y of layer 0 at [0,3] is"),
                           bench::Failed);
    }
  }
}

TEST_CASE("a long graph that could not be made is tried again") {
  bench::LongGraphCheck check;
  CHECK_THROWS_AS(
      check.demand(Mode::Forward, []() -> Checked { throw bench::Failed("out of memory"); }),
      bench::Failed);
  CHECK_NOTHROW(check.demand(Mode::Forward, [] { return result_of(Mode::Forward, 0); }));
}

TEST_CASE("copies of a training step, which begin with other weights, are not checked") {
  bench::LongGraphCheck check;
  CHECK_NOTHROW(check.demand(Mode::TrainStep, [] { return result_of(Mode::TrainStep, 0.5F); }));
}

}  // namespace
