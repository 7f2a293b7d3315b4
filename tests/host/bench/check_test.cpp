// The checker of results, over networks computed in host memory: it passes what is right and finds
// what is planted.
#include "bench/check.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "bench_support.hpp"

namespace {

using bench::Checked;
using bench::HostMatrix;
using bench::HostNetwork;
using bench::Mode;
using bench::Row;

const ai::ActKind kActivations[] = {ai::ActKind::None, ai::ActKind::ReLU, ai::ActKind::Tanh,
                                    ai::ActKind::ELU, ai::ActKind::GELUTanh};

Row row_of(ai::ActKind act, Mode mode, std::vector<int> layers = {9, 17, 12, 5}, int batch = 7) {
  return {"test", std::move(layers), act, batch, mode};
}

/// 10 bits of mantissa, as TF32 keeps of each factor.
double tf32(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

TEST_CASE("a right step passes in every mode, whichever matrices the contestant keeps") {
  for (const ai::ActKind act : kActivations) {
    for (const Mode mode : {Mode::Forward, Mode::ForwardBackward, Mode::TrainStep}) {
      for (const auto& [z, gy, gz] : {std::tuple{true, true, false},
                                      {true, true, true},
                                      {true, false, true},
                                      {false, false, true},
                                      {false, true, false}}) {
        CAPTURE(ai::to_string(act));
        CAPTURE(static_cast<int>(mode));
        CAPTURE(z);
        CAPTURE(gy);
        const HostNetwork net = support::run_step(row_of(act, mode), {.z = z, .gy = gy, .gz = gz});
        const Checked checked = bench::check_network(net, z);
        CHECK_MESSAGE(checked.good(), checked.worst);
        CHECK(checked.error_ratio > 0);
        CHECK(checked.count >= 7 * (17 + 12 + 5));
      }
    }
  }
}

TEST_CASE("products rounded to TF32 fail, forward and backward") {
  for (const Mode mode : {Mode::Forward, Mode::ForwardBackward}) {
    support::Keeps keeps;
    keeps.rounding = tf32;
    const Row row = row_of(ai::ActKind::ReLU, mode, {64, 256, 256, 8}, 4);
    const Checked checked = bench::check_network(support::run_step(row, keeps), true);
    CHECK(checked.error_ratio > 10);
    CHECK(std::isfinite(checked.error_ratio));
  }
}

struct Plant {
  const char* name;
  HostMatrix& (*of)(HostNetwork&);
};
const Plant kPlants[] = {
    {"y of layer 1", [](HostNetwork& net) -> HostMatrix& { return net.layers[1].y; }},
    {"y of layer 2", [](HostNetwork& net) -> HostMatrix& { return net.layers[2].y; }},
    {"z of layer 0", [](HostNetwork& net) -> HostMatrix& { return net.layers[0].z; }},
    {"gy of layer 0", [](HostNetwork& net) -> HostMatrix& { return net.layers[0].gy; }},
    {"gy of layer 2", [](HostNetwork& net) -> HostMatrix& { return net.layers[2].gy; }},
    {"gz of layer 1", [](HostNetwork& net) -> HostMatrix& { return net.layers[1].gz; }},
    {"gw of layer 0", [](HostNetwork& net) -> HostMatrix& { return net.layers[0].gw; }},
    {"gw of layer 2", [](HostNetwork& net) -> HostMatrix& { return net.layers[2].gw; }},
    {"gb of layer 1", [](HostNetwork& net) -> HostMatrix& { return net.layers[1].gb; }},
    {"w of layer 1", [](HostNetwork& net) -> HostMatrix& { return net.layers[1].w; }},
    {"b of layer 2", [](HostNetwork& net) -> HostMatrix& { return net.layers[2].b; }},
};

TEST_CASE("one wrong element of any result is found and named") {
  const HostNetwork right =
      support::run_step(row_of(ai::ActKind::Tanh, Mode::TrainStep), {.gz = true});
  REQUIRE(bench::check_network(right, true).good());
  for (const Plant& plant : kPlants) {
    CAPTURE(plant.name);
    HostNetwork net = right;
    float& value = plant.of(net).values[3];
    value = value * 1.0001F + 1e-4F;
    const Checked wrong = bench::check_network(net, true);
    CHECK(wrong.error_ratio > 1);
    CHECK(std::isfinite(wrong.error_ratio));

    value = std::numeric_limits<float>::quiet_NaN();
    const Checked nan = bench::check_network(net, true);
    CHECK(std::isinf(nan.error_ratio));

    const std::string name = plant.name;
    if (name.find("gy") == 0 || name.find("gz") == 0) continue;  // one of the two may be left out
    HostMatrix& matrix = plant.of(net);
    matrix.values.assign(matrix.count(), HostNetwork(net.row).layers[0].gw.values[0]);
    CHECK(std::isinf(bench::check_network(net, true).error_ratio));
  }
}

TEST_CASE("an activation may be off by what its contestant says, and by no more") {
  HostNetwork net = support::run_step(row_of(ai::ActKind::GELUTanh, Mode::Forward));
  net.layers[0].y.values[3] += 8e-6F;
  CHECK(bench::check_network(net, true).error_ratio > 1);
  CHECK(bench::check_network(net, true, 1e-5).good());
  net.layers[0].y.values[3] += 8e-6F;
  CHECK(bench::check_network(net, true, 1e-5).error_ratio > 1);
}

TEST_CASE("a gradient that was never written is found") {
  const HostNetwork right = support::run_step(row_of(ai::ActKind::ReLU, Mode::ForwardBackward));
  const float poison = HostNetwork(right.row).layers[0].gw.values[0];
  HostNetwork net = right;
  net.layers[1].gw.values.assign(net.layers[1].gw.count(), poison);
  CHECK(std::isinf(bench::check_network(net, true).error_ratio));
  net = right;
  net.layers[1].gy.values.assign(net.layers[1].gy.count(), poison);
  const Checked checked = bench::check_network(net, true);
  CHECK(std::isinf(checked.error_ratio));
  CHECK(checked.worst == "neither gy nor gz of layer 1 was written");
}

TEST_CASE("parameters that were not updated, or an input that was, are found") {
  HostNetwork net = support::run_step(row_of(ai::ActKind::ReLU, Mode::TrainStep));
  const HostNetwork first(net.row);
  net.layers[0].w = first.layers[0].w;
  CHECK(bench::check_network(net, true).error_ratio > 1);

  net = support::run_step(row_of(ai::ActKind::ReLU, Mode::ForwardBackward));
  net.x.values[0] += 1e-6F;
  CHECK(bench::check_network(net, true).worst == "x was changed");
  net = support::run_step(row_of(ai::ActKind::ReLU, Mode::Forward));
  net.layers[2].b.values[0] += 1e-6F;
  CHECK(bench::check_network(net, true).worst == "b of layer 2 was changed");
}

TEST_CASE("of a large matrix 4096 elements are checked, and a wrong column is found") {
  const Row row = row_of(ai::ActKind::None, Mode::Forward, {3, 300}, 300);
  HostNetwork net = support::run_step(row);
  const Checked right = bench::check_network(net, true);
  CHECK_MESSAGE(right.good(), right.worst);
  CHECK(right.count == 4096);
  for (int m = 0; m < 300; ++m)
    net.layers[0].y.values[static_cast<std::size_t>(m * 300 + 7)] += 0.01F;
  CHECK(bench::check_network(net, true).error_ratio > 1);
}

TEST_CASE("ReLU's mask is that of the contestant's own y") {
  const Row row = row_of(ai::ActKind::ReLU, Mode::ForwardBackward, {6, 32, 3}, 5);
  HostNetwork net = support::run_step(row, {.z = false, .gy = false, .gz = true});
  for (std::size_t i = 0; i < net.layers[0].y.count(); ++i) {
    if (net.layers[0].y.values[i] > 0) {
      net.layers[0].gz.values[i] = 0;
      break;
    }
  }
  CHECK(bench::check_network(net, false).error_ratio > 1);
}

}  // namespace
