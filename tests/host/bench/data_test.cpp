// Literal values, worked out apart from the code, that every contestant's data must have.
#include "bench/data.hpp"

#include <doctest/doctest.h>

#include "bench/host_network.hpp"

namespace {

TEST_CASE("the hash gives the values that all contestants agree on") {
  struct Known {
    std::uint32_t tensor;
    std::uint32_t i;
    std::uint32_t hash;
    float value;
  };
  const Known known[] = {
      {1, 0, 0xc157f951U, 0x1.055fe4p-1F},     {1, 1, 0xf937ea81U, 0x1.e4dfa8p-1F},
      {2, 0, 0xe6822638U, 0x1.9a0898p-1F},     {3, 7, 0x71d2ee08U, -0x1.c5a24p-4F},
      {100, 0, 0xebceb8f1U, 0x1.af3aep-1F},    {104, 1048575, 0xbcef2e0cU, 0x1.e7797p-2F},
      {200, 63, 0x0511c391U, -0x1.ebb8f4p-1F}, {1, 45088767, 0x0dce2e8eU, -0x1.c8c748p-1F},
  };
  for (const Known& one : known) {
    CAPTURE(one.tensor);
    CAPTURE(one.i);
    CHECK(bench::hash(one.tensor, one.i) == one.hash);
    CHECK(bench::unit_value(one.tensor, one.i) == one.value);
  }
}

TEST_CASE("a network begins with its data scaled and its results poisoned") {
  const bench::Row row{"small", {4, 3, 2}, ai::ActKind::ReLU, 2, bench::Mode::ForwardBackward};
  const bench::HostNetwork net(row);
  CHECK(net.x.rows == 2);
  CHECK(net.x.cols == 4);
  CHECK(net.x.values[1] == 0x1.e4dfa8p-1F);
  CHECK(net.target.values[7 % 4] == bench::unit_value(3, 3));
  CHECK(net.layers[0].w.values[0] == 0x1.af3aep-1F * 0x1.bb67aep-1F);  // sqrt(3/4)
  CHECK(net.layers[0].b.values[2] == bench::unit_value(200, 2) * 0.1F);
  CHECK(net.layers[1].w.values[5] == bench::unit_value(101, 5));  // fan-in 3
  CHECK(net.layers[1].gy.values[0] == 0x1.9a0898p-1F);
  CHECK(net.layers[0].gy.is_written() == false);
  CHECK(net.layers[1].y.is_written() == false);
  CHECK(net.layers[1].gw.is_written() == false);

  const bench::HostNetwork trained(
      {"small", {4, 3, 2}, ai::ActKind::ReLU, 2, bench::Mode::TrainStep});
  CHECK(trained.layers[1].gy.is_written() == false);
}

}  // namespace
