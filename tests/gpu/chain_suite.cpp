// The workloads of the bench that fit a chain kernel, every layer against the oracle on the GPU.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chain_device.hpp"

namespace {

using gpu::ChainSpec;
using gpu::ChainVerdict;
using gpu::DeviceChain;

struct Workload {
  const char* name;
  std::vector<std::int64_t> widths;
  ai::ActKind act;
  std::vector<std::int64_t> batches;
};

const std::vector<Workload> kWorkloads = {
    {"jet", {16, 64, 32, 32, 5}, ai::ActKind::ReLU, {1, 64}},
    {"policy", {64, 256, 256, 8}, ai::ActKind::ReLU, {1, 64}},
    {"policy_tanh", {64, 64, 64, 8}, ai::ActKind::Tanh, {1, 64}},
    {"legged", {235, 512, 256, 128, 12}, ai::ActKind::ELU, {1, 64}},
    {"anomaly", {640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640}, ai::ActKind::ReLU, {1}},
    {"pinn", {3, 20, 20, 20, 20, 20, 20, 20, 20, 2}, ai::ActKind::Tanh, {256}},
    {"ncf", {256, 256, 128, 64}, ai::ActKind::ReLU, {128}},
    {"ranking", {479, 1024, 1024, 512, 256, 1}, ai::ActKind::ReLU, {1, 128}},
    {"radiance", {64, 64, 64, 64, 64, 64}, ai::ActKind::ReLU, {16384}},
    {"wide", {1024, 1024, 1024, 1024, 1024}, ai::ActKind::ReLU, {1, 16, 256}},
};

/// Each workload laid out by `layout`, and in the record what became of it.
template <typename Layout>
void check_suite(const std::string& what, double budget_s, Layout&& layout) {
  for (const Workload& workload : kWorkloads) {
    for (const std::int64_t batch : workload.batches) {
      const std::string row = std::string(workload.name) + "/" + std::to_string(batch);
      CAPTURE(row);
      const ChainSpec spec = layout(gpu::plain_chain(workload.widths, workload.act, batch));
      DeviceChain chain(spec, gpu::measured(budget_s));
      chain.run();
      const ChainVerdict verdict = chain.verdict();
      CHECK(verdict.faults == "");
      CHECK_MESSAGE(chain.is_one(), gpu::run_lines(chain.executable));
      MESSAGE(row, ", ", what, ": ", gpu::nodes_of(chain.executable), ", worst error ",
              verdict.worst, " of the bound in ", verdict.elements, " results; ",
              gpu::run_lines(chain.executable));
    }
  }
}

TEST_CASE("every layer of a workload of the suite equals the oracle where all Ys are kept") {
  check_suite("every Y kept", 2.0, [](ChainSpec spec) { return spec; });
}

TEST_CASE("a workload of the suite equals the oracle where only the last Y is kept") {
  check_suite("the last Y kept", 2.0, [](ChainSpec spec) { return gpu::hidden(spec); });
}

TEST_CASE("a workload of the suite equals the oracle where the last Y and every Z are kept") {
  check_suite("the last Y and every Z kept", 2.0,
              [](ChainSpec spec) { return gpu::hidden(spec, true); });
}

}  // namespace
