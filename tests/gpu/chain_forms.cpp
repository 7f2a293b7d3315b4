// Every shape of every chain kernel that a network can have, whichever is quickest: the oracle's
// values, from every launch.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ai/kernels/backend_factory.hpp"
#include "chain_device.hpp"
#include "chain_random.hpp"

namespace {

using gpu::Arena;
using gpu::ChainNetwork;
using gpu::ChainSpec;
using gpu::ChainVerdict;

/// Device memory for the symbolic storage of a step, which is state: zero at first.
class OwnMemory {
 public:
  explicit OwnMemory(const ai::Step& step) {
    for (const ai::MemoryRange& range : step.writes()) {
      if (!ai::symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin))) continue;
      REQUIRE(step.state().size() == 1);
      REQUIRE(step.state()[0].begin == range.begin);
      const std::size_t bytes = range.end() - range.begin;
      void* block = nullptr;
      gpu::require_done(cudaMalloc(&block, bytes), "memory of a step");
      blocks_.push_back(block);
      gpu::require_done(cudaMemset(block, 0, bytes), "memory of a step");
      addresses.add(range.begin, bytes, block);
    }
    gpu::require_done(cudaDeviceSynchronize(), "memory of a step");
  }
  ~OwnMemory() {
    for (void* const block : blocks_) (void)cudaFree(block);
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  ai::AddressMap addresses;

 private:
  std::vector<void*> blocks_;
};

ai::PlanRun run_of(const ChainNetwork& network, const Arena& arena) {
  ai::PlanRun run;
  for (std::size_t l = 0; l < network.depth(); ++l) {
    const auto plan = ai::plan_forward(
        network.call(l, [&](const support::Buffer& buffer) { return arena.tensor(buffer); }));
    gpu::require_good(plan.status());
    run.plans.push_back(*plan);
    run.keeps_y.push_back(true);
  }
  return run;
}

/// "tiles" of "tiles/32x32/32x2".
std::string kernel_of(const std::string& candidate) {
  return candidate.substr(0, candidate.find('/'));
}

/// Every candidate for `spec`, three launches each; counts them by kernel.
void check_forms(const ChainSpec& spec, std::size_t most, std::map<std::string, int>& seen) {
  CAPTURE(gpu::to_string(spec));
  ChainNetwork now(spec);
  ChainNetwork before(spec);
  Arena arena(now);
  const ai::PlanRun run = run_of(now, arena);
  const auto backend = ai::kernels::make_cuda_backend(0);
  const auto tasks = backend->fuse({&run, 1}, {.most = most});
  gpu::require_good(tasks.status());
  for (const ai::Candidate& candidate : tasks->front().candidates) {
    CAPTURE(candidate.name);
    if (!candidate.applicable()) continue;
    ai::Step& step = *candidate.steps.front();
    const ai::Status prepared = step.prepare();
    if (prepared.code() == ai::StatusCode::Unsupported) continue;  // no room for its clusters
    gpu::require_good(prepared);
    const OwnMemory own(step);
    for (int launch = 0; launch < 3; ++launch) {
      CAPTURE(launch);
      now.restore(before);
      arena.upload(now);
      gpu::require_good(step.enqueue(own.addresses, nullptr));
      gpu::require_done(cudaDeviceSynchronize(), candidate.name.c_str());
      arena.download(now);
      const ChainVerdict verdict = gpu::check_layers(now);
      CHECK(verdict.faults == "");
      CHECK(support::damage(before, now) == "");
    }
    ++seen[kernel_of(candidate.name)];
  }
}

ChainSpec odd(std::vector<std::int64_t> widths, ai::ActKind act, std::int64_t batch) {
  ChainSpec spec = gpu::plain_chain(widths, act, batch);
  spec.pad = 3;
  spec.offset = 1;
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    gpu::ChainLayer& layer = spec.layers[l];
    layer.bias = support::kBiasKinds[l % std::size(support::kBiasKinds)];
    layer.with_z = l % 2 == 0;
    layer.alpha = l % 3 == 1 ? -1.25F : 1.0F;
    layer.pad = static_cast<std::int64_t>(l) % 3;
    layer.offset = static_cast<std::int64_t>(l) % 4;
    layer.bias_stride = l % 4 == 2 ? 2 : 1;
  }
  return spec;
}

TEST_CASE("every form of every chain kernel gives the oracle's values") {
  using ai::ActKind;
  std::map<std::string, int> seen;
  for (const std::int64_t batch : {1, 2, 4}) {
    check_forms(gpu::plain_chain({479, 1024, 512, 256, 1}, ActKind::ReLU, batch), 12, seen);
    check_forms(odd({235, 700, 130, 333, 5}, ActKind::GELUTanh, batch), 12, seen);
  }
  for (const std::int64_t batch : {16, 77, 128}) {
    check_forms(gpu::plain_chain({479, 512, 256, 1}, ActKind::ReLU, batch), 12, seen);
    check_forms(odd({235, 300, 61, 333, 7}, ActKind::ELU, batch), 12, seen);
  }
  for (const std::int64_t batch : {256, 1031, 4099}) {
    check_forms(gpu::plain_chain({64, 64, 64, 32}, ActKind::Tanh, batch), 12, seen);
    check_forms(odd({3, 20, 63, 20, 5}, ActKind::SiLU, batch), 12, seen);
  }
  // Many rows of layers that take turns in shared memory, that take more than one turn of a warp,
  // of one term, and transposed.
  check_forms(gpu::plain_chain({128, 128, 128, 100, 5}, ActKind::ReLU, 2048), 12, seen);
  check_forms(odd({101, 96, 96, 96}, ActKind::ELU, 1025), 12, seen);
  check_forms(gpu::plain_chain({1, 5, 33, 2}, ActKind::ReLU, 2048), 12, seen);
  ChainSpec transposed = odd({40, 70, 70, 9}, ActKind::Tanh, 1500);
  transposed.trans_a = true;
  for (gpu::ChainLayer& layer : transposed.layers) layer.trans_b = true;
  check_forms(transposed, 12, seen);
  // Eight layers of a few blocks, and then one of all.
  check_forms(gpu::plain_chain({64, 64, 64, 64, 64, 64, 64, 64, 64, 512}, ActKind::ReLU, 1), 24,
              seen);
  std::string counts;
  for (const auto& [kernel, count] : seen) counts += " " + kernel + " " + std::to_string(count);
  MESSAGE("forms that gave the oracle's values three times:", counts);
  for (const char* kernel : {"chain", "rows", "grid", "tiles"}) {
    CAPTURE(kernel);
    CHECK(seen[kernel] > 0);
  }
}

// For the tools of compute-sanitizer.
TEST_CASE("small: some forms of every chain kernel give the oracle's values") {
  std::map<std::string, int> seen;
  check_forms(odd({70, 260, 5}, ai::ActKind::ReLU, 2), 6, seen);
  check_forms(odd({70, 130, 9}, ai::ActKind::ReLU, 33), 6, seen);
  check_forms(odd({20, 33, 5}, ai::ActKind::ReLU, 1025), 6, seen);
  std::string counts;
  for (const auto& [kernel, count] : seen) counts += " " + kernel + " " + std::to_string(count);
  MESSAGE("small forms:", counts);
  CHECK(seen.size() == 4);
}

}  // namespace
