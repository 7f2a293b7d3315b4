// A9: the gradients of a backward call as branches of one graph, whatever is on the caller's
// stream.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "layer.hpp"
#include "lifecycle_kernels.hpp"
#include "placed_case.hpp"

namespace {

using gpu::OwnStream;
using gpu::PlacedBackward;

/// Backward over [24,40] and K = 56 with the gradients of `subset`: gA, gB, gC, gBias from bit 0.
support::Case subset_case(unsigned subset, ai::ActKind act) {
  const auto wanted = [subset](unsigned bit) {
    return (subset >> bit & 1U) != 0 ? support::Wanted::Overwrite : support::Wanted::No;
  };
  support::Case c{24, 40, 56, ai::BiasKind::PerN, act};
  c.with_z = c.with_c = true;
  c.beta = 0.5F;
  c.ga = wanted(0);
  c.gb = wanted(1);
  c.gc = wanted(2);
  c.gbias = wanted(3);
  c.seed = subset + 1;
  return c;
}

/// Takes gY away and puts, on `stream`, a copy behind a few milliseconds of work that brings it
/// back: what does not wait for that reads NaN.
class LateInput {
 public:
  LateInput(const ai::Tensor& tensor, cudaStream_t stream) {
    const ai::Extents& shape = tensor.desc.shape;
    const auto bytes = static_cast<std::size_t>(shape[0] * shape[1]) * sizeof(float);
    REQUIRE(cudaMalloc(&kept_, bytes) == cudaSuccess);
    REQUIRE(cudaMemcpy(kept_, tensor.data, bytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
    REQUIRE(cudaMemset(tensor.data, 0xFF, bytes) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    REQUIRE(gpu::enqueue_spin(5'000'000, stream) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(tensor.data, kept_, bytes, cudaMemcpyDeviceToDevice, stream) ==
            cudaSuccess);
  }
  ~LateInput() { (void)cudaFree(kept_); }
  LateInput(const LateInput&) = delete;
  LateInput& operator=(const LateInput&) = delete;

 private:
  void* kept_ = nullptr;
};

template <typename Check>
void for_each_subset(Check&& check) {
  for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::SiLU}) {
    for (unsigned subset = 1; subset < 16; ++subset) {
      const support::Case c = subset_case(subset, act);
      CAPTURE(support::to_string(c));
      check(c);
    }
  }
}

/// No edge from outside, and each requested gradient at the end of a branch of its own. With an
/// activation all branches of gA and gB begin at the one node that makes gZ.
void check_graph(const support::Case& c, const ai::Executable& executable) {
  const std::vector<ai::Node>& nodes = executable.nodes();
  CAPTURE(executable.dot());
  std::vector<bool> is_sink(nodes.size(), true);
  std::size_t roots = 0;
  std::size_t edges = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].depends_on.empty()) ++roots;
    edges += nodes[i].depends_on.size();
    for (const int earlier : nodes[i].depends_on) {
      REQUIRE(earlier >= 0);
      REQUIRE(earlier < static_cast<int>(i));
      is_sink[static_cast<std::size_t>(earlier)] = false;
    }
  }
  std::size_t arrows = 0;
  for (std::size_t at = executable.dot().find("->"); at != std::string::npos;
       at = executable.dot().find("->", at + 2)) {
    ++arrows;
  }
  CHECK(arrows == edges);

  std::size_t ga = 0;
  std::size_t gb = 0;
  std::size_t others = 0;
  bool two_stages = false;  // the bias gradient has a second kernel
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    two_stages = two_stages || nodes[i].name == "bias_grad";
    if (!is_sink[i]) continue;
    const bool is_ga = nodes[i].name.find("gA") != std::string::npos;
    const bool is_gb = nodes[i].name.find("gB") != std::string::npos;
    ++(is_ga ? ga : is_gb ? gb : others);
  }
  const bool wants_ga = c.ga != support::Wanted::No;
  const bool wants_gb = c.gb != support::Wanted::No;
  const bool wants_others = c.gc != support::Wanted::No || c.gbias != support::Wanted::No;
  const bool shares_gz = c.act != ai::ActKind::None && (wants_ga || wants_gb);
  CHECK(ga == (wants_ga ? 1 : 0));
  CHECK(gb == (wants_gb ? 1 : 0));
  CHECK(others == (two_stages || (wants_others && !shares_gz) ? 1 : 0));
  CHECK(roots == (shares_gz ? 1 : ga + gb + others));
}

TEST_CASE(
    "A9: every subset of gradients captured right after unsynchronised work of the caller's") {
  for_each_subset([](const support::Case& c) {
    PlacedBackward placed(c);
    const OwnStream stream;
    REQUIRE(placed.upload() == cudaSuccess);
    const ai::Result<ai::Program> program = gpu::program_of(placed.call());
    REQUIRE_MESSAGE(program.ok(), program.status().to_string());
    const LateInput late(placed.call().gY, stream.get());
    ai::Executable executable = gpu::captured(*program);
    REQUIRE(executable.launch(stream.get()).ok());
    const ai::Status status = executable.wait();
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    CHECK(placed.wrong() == "");
    check_graph(c, executable);
  });
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("A9: every subset of gradients by the direct path behind work of the caller's") {
  for_each_subset([](const support::Case& c) {
    PlacedBackward placed(c);
    const OwnStream stream;
    REQUIRE(placed.upload() == cudaSuccess);
    const LateInput late(placed.call().gY, stream.get());
    const ai::Status status = ai::gemm::backward(placed.call(), stream.get());
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(placed.wrong() == "");
  });
  ai::gemm::clear_plan_cache();
  CHECK(cudaGetLastError() == cudaSuccess);
}

// The work before it must not get into the capture, and nothing may be left unjoined.
TEST_CASE("A9: every subset of gradients recorded into the caller's capture, begun behind work") {
  for_each_subset([](const support::Case& c) {
    PlacedBackward placed(c);
    const OwnStream stream;
    REQUIRE(placed.upload() == cudaSuccess);
    const LateInput late(placed.call().gY, stream.get());
    REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    const ai::Status status = ai::gemm::backward(placed.call(), stream.get());
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream.get(), &graph);
    REQUIRE_MESSAGE(status.ok(), status.to_string());
    REQUIRE(ended == cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, stream.get()) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(placed.wrong() == "");
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
  });
  ai::gemm::clear_plan_cache();
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
