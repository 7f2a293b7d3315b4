// Whole networks on the host target, through the same code that the GPU runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/check_network.hpp"

namespace {

struct OnHost {
  static ai::Status upload(support::Network&) { return {}; }
  static ai::Status download(support::Network&) { return {}; }
  static support::Place place() { return {}; }
  static void copies_first_read_to_first_write(ai::UserStep& step) {
    step.host = [](const ai::StepContext& context) -> ai::Status {
      const ai::Extents& shape = context.reads[0].desc.shape;
      std::copy_n(static_cast<const float*>(context.reads[0].data), shape[0] * shape[1],
                  static_cast<float*>(context.writes[0].data));
      return {};
    };
  }
};

const ai::CaptureOptions kHost{.target = ai::Target::Host};

TEST_CASE("the table of networks has every batch, activation and kind of bias") {
  const auto specs = support::networks();
  CHECK(specs.size() == 27);
  for (const ai::ActKind act : support::kActs) {
    for (const std::int64_t batch : {1, 7, 64}) {
      CHECK(std::any_of(specs.begin(), specs.end(), [&](const support::NetworkSpec& spec) {
        return spec.batch == batch &&
               std::any_of(spec.layers.begin(), spec.layers.end(),
                           [&](const support::LayerSpec& layer) { return layer.act == act; });
      }));
    }
  }
  for (const ai::BiasKind bias : support::kBiasKinds) {
    CHECK(std::any_of(specs.begin(), specs.end(), [&](const support::NetworkSpec& spec) {
      return spec.layers[1].bias == bias;
    }));
  }
}

TEST_CASE("host: every layer of a network equals the oracle") {
  support::check_networks_in_buffers<OnHost>(kHost, 1, 3);
}

TEST_CASE("host: every layer of a network over temporaries equals the oracle") {
  support::check_observed_networks<OnHost>(kHost, 1, 3);
}

TEST_CASE("host: a network over temporaries gives the same bits as over buffers") {
  support::check_networks_in_temporaries<OnHost>(kHost, 1, 3);
}

TEST_CASE("host: in the steps of a network, gA and gB of a layer do not wait for each other") {
  support::check_network_graphs<OnHost>(kHost, 1);
}

TEST_CASE("the checks of a network see a wrong layer, a wrong bit and a dependent gradient") {
  CHECK(!support::waits_for({{"a", "", {}}, {"b", "", {}}}, 1, 0));
  CHECK(support::waits_for({{"a", "", {}}, {"b", "", {0}}, {"c", "", {1}}}, 2, 0));
  const auto steps = support::nodes_of(
      {{"x gA#1", "", {}}, {"x gA#2", "", {}}, {"x gA#1", "", {}}, {"x gA", "", {}}}, "gA");
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].size() == 2);
  std::vector<ai::Node> nodes = {
      {"gA", "", {}}, {"gB", "", {}}, {"gZ", "", {0}}, {"gA", "", {2}}, {"gB", "", {2}}};
  CHECK(support::gradient_order(nodes, 2, true) == "");
  nodes[4].depends_on = {2, 3};
  CHECK(support::gradient_order(nodes, 2, true) == "gB of layer 0 waits for gA; ");
  nodes[4].depends_on = {};
  CHECK(support::gradient_order(nodes, 2, true) == "nothing waits for gA of layer 1; ");
  CHECK(support::gradient_order(nodes, 2, false) != "");

  const support::NetworkSpec spec = support::networks().front();
  support::CapturedNetwork<OnHost> network(spec, {support::Hidden::Buffers, false, kHost});
  network.replay();
  support::Network other = network.now;
  CHECK(network.differences(other) == "");
  float& element = other.layers[1].gb.at(0, 0);
  element = std::nextafter(element, 10.0F);
  CHECK(network.differences(other) == "gB ");
  const auto at = [](const support::Buffer& buffer) { return buffer.tensor(); };
  const auto layer = [&] {
    const oracle::Forward expected = oracle::forward(network.now.forward(1, at));
    return support::difference("Y", expected.y, network.now.layers[1].y);
  };
  CHECK(layer() == "");
  network.now.layers[0].y.at(0, 0) += 0.01F;
  CHECK(layer() != "");
}

}  // namespace
