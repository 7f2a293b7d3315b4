#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "bench/suite.hpp"
#include "chain_compiled.hpp"
#include "chain_device.hpp"
#include "chain_support.hpp"

using namespace ai::kernels::chain;
using ai::cuda::CompileRequest;
using chain_test::check_compiled;
using chain_test::Spills;

namespace {

constexpr std::size_t kShapes = 3;  // of each network and device

using Device = TargetDevice;
const std::vector<Device>& devices() {
  static const std::vector<Device> all = {{chain_test::hopper(), 90, true},
                                          {chain_test::ampere(), 80, false}};
  return all;
}

CompileRequest request_for(const Network& network, const Shape& shape, const Device& device,
                           std::string name) {
  CompileRequest request = ai::kernels::chain::request_for(network, shape, device);
  request.name = std::move(name);
  return request;
}

}  // namespace

TEST_CASE("every network of the suite that fits compiles for sm_90a and sm_80 without spills") {
  std::vector<CompileRequest> requests;
  std::size_t on_hopper = 0;
  for (const bench::Workload& workload : bench::built_in_suite()) {
    for (const int batch : workload.batches) {
      const Network network = chain_test::network(workload.layers, workload.activation, batch);
      for (const Device& device : devices()) {
        const std::vector<Shape> shapes = shapes_for(network, device.machine, kShapes);
        if (device.arch_specific && !shapes.empty()) on_hopper += 1;
        for (const Shape& shape : shapes) {
          requests.push_back(request_for(network, shape, device,
                                         workload.name + "/" + std::to_string(batch) + " " +
                                             chain_test::text_of(shape) + " sm_" +
                                             std::to_string(device.compute_capability)));
        }
      }
    }
  }
  // jet, policy, policy_tanh, legged with both batches; anomaly, pinn, ncf, radiance.
  CHECK(on_hopper == 12);
  check_compiled(requests);
}

TEST_CASE("every activation, kind of bias, output and layout compiles") {
  std::vector<CompileRequest> requests;
  for (const Device& device : devices()) {
    for (const Shape& shape : {Shape{1, 1, 64, 1, false}, Shape{2, 1, 64, 2, true},
                               Shape{4, 4, 128, 1, false}, Shape{8, 2, 96, 2, true}}) {
      if (shape.cluster > device.machine.limits.cluster) continue;
      const Network network = chain_test::every_feature(5);
      REQUIRE(reason_against(network, shape, device.machine) == "");
      requests.push_back(request_for(network, shape, device, chain_test::text_of(shape)));
    }
  }
  check_compiled(requests);
}

TEST_CASE("networks with more weights than registers compile") {
  std::vector<CompileRequest> tight;
  std::vector<CompileRequest> roomy;
  for (const auto& [width, layers, rows] :
       {std::array{300, 10, 1}, std::array{600, 10, 16}, std::array{450, 6, 80}}) {
    const std::vector<int> widths(static_cast<std::size_t>(layers) + 1, width);
    const Network network = chain_test::network(widths, ai::ActKind::GELUTanh, rows);
    const std::vector<Shape> shapes = shapes_for(network, devices()[0].machine, kShapes);
    CAPTURE(width);
    REQUIRE(!shapes.empty());
    for (const Shape& shape : shapes) {
      CHECK(shape.window > 0);
      CompileRequest request = request_for(network, shape, devices()[0],
                                           std::to_string(layers) + " x " + std::to_string(width) +
                                               " " + chain_test::text_of(shape));
      // Where the weights of one layer leave no room, some of them do go to memory.
      const bool is_tight = weights_of(network.layers[0], shape) > shape.window / 2;
      (is_tight ? tight : roomy).push_back(std::move(request));
    }
  }
  CHECK(!roomy.empty());
  check_compiled(roomy);
  check_compiled(tight, Spills::Some);
}

TEST_CASE("a network that cannot be is told by the compiler, not by a crash") {
  const Network network = chain_test::network({4, 3}, ai::ActKind::None, 1);
  CompileRequest request = request_for(network, {1, 1, 32, 1, false}, devices()[0], "broken");
  request.source += "this is no C++;\n";
  const auto nvrtc = ai::cuda::nvrtc_api();
  REQUIRE(nvrtc.ok());
  const auto cubin = ai::cuda::compile(**nvrtc, request);
  REQUIRE(!cubin.ok());
  CHECK(cubin.status().message().starts_with("broken"));
}
