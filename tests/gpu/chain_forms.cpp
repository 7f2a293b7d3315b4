// Every shape of every chain kernel that a network can have, whichever is quickest: the oracle's
// values, from every launch.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
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

/// "tiles" of "tiles/32x32/32x2"; of those for many rows, "lines" where a warp has one row, which
/// is a kernel of its own, and "streamed" where weights take turns in shared memory.
std::string kernel_of(const std::string& candidate) {
  if (candidate.starts_with("rows/1x")) return "lines";
  if (candidate.ends_with("/streamed")) return "streamed";
  return candidate.substr(0, candidate.find('/'));
}

/// What gave the oracle's values.
struct Seen {
  std::map<std::string, int> forms;                           ///< of each kernel
  std::set<std::pair<std::string, ai::ActKind>> activations;  ///< that each kernel met

  void add(const std::string& kernel, const ChainSpec& spec) {
    ++forms[kernel];
    for (const gpu::ChainLayer& layer : spec.layers) activations.emplace(kernel, layer.act);
  }
  [[nodiscard]] std::string counts() const {
    std::string text;
    for (const auto& [kernel, count] : forms) text += " " + kernel + " " + std::to_string(count);
    return text;
  }
};

/// Every candidate for `spec`, three launches each.
void check_forms(const ChainSpec& spec, std::size_t most, Seen& seen) {
  CAPTURE(gpu::to_string(spec));
  ChainNetwork now(spec);
  ChainNetwork before(spec);
  Arena arena(now);
  const ai::PlanRun run = run_of(now, arena);
  const auto backend = ai::kernels::make_cuda_backend(0);
  const auto tasks = backend->fuse({&run, 1}, {.most = most});
  gpu::require_good(tasks.status());
  int checked = 0;
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
    seen.add(kernel_of(candidate.name), spec);
    ++checked;
  }
  CHECK(checked > 0);
}

/// Layers of every activation, kind of bias and layout one after another; each `turn` begins
/// elsewhere, so that the first three of four layers have all activations between them.
ChainSpec odd(const std::vector<std::int64_t>& widths, std::size_t turn, std::int64_t batch) {
  ChainSpec spec = gpu::plain_chain(widths, ai::ActKind::None, batch);
  spec.pad = 3;
  spec.offset = 1;
  spec.trans_a = turn % 2 == 1;
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    gpu::ChainLayer& layer = spec.layers[l];
    layer.act = support::kActs[(4 * turn + l) % std::size(support::kActs)];
    layer.slope = -0.3F;
    layer.bias = support::kBiasKinds[(turn + l) % std::size(support::kBiasKinds)];
    layer.with_z = (turn + l) % 2 == 0;
    layer.trans_b = (turn + l) % 3 == 1;
    layer.alpha = l % 3 == 1 ? -1.25F : 1.0F;
    layer.pad = static_cast<std::int64_t>(l) % 3;
    layer.offset = static_cast<std::int64_t>(l) % 4;
    layer.bias_stride = l % 4 >= 2 ? 2 : 1;
  }
  return spec;
}

TEST_CASE("every form of every chain kernel gives the oracle's values") {
  using ai::ActKind;
  Seen seen;
  const std::int64_t few[] = {1, 2, 4};
  const std::int64_t some[] = {16, 77, 128};
  const std::int64_t many[] = {256, 1031, 4099};
  for (std::size_t turn = 0; turn < 3; ++turn) {
    check_forms(gpu::plain_chain({479, 1024, 512, 256, 1}, ActKind::ReLU, few[turn]), 12, seen);
    check_forms(odd({235, 700, 130, 333, 5}, turn, few[turn]), 12, seen);
    check_forms(gpu::plain_chain({479, 512, 256, 1}, ActKind::ReLU, some[turn]), 12, seen);
    check_forms(odd({235, 300, 61, 333, 7}, turn, some[turn]), 12, seen);
    check_forms(gpu::plain_chain({64, 64, 64, 32}, ActKind::Tanh, many[turn]), 12, seen);
    check_forms(odd({3, 20, 63, 20, 5}, turn, many[turn]), 12, seen);
    // One layer: nothing is passed on.
    check_forms(odd({235, 300}, turn, some[turn]), 12, seen);
    check_forms(odd({40, 61}, turn, many[turn]), 12, seen);
    // Of few candidates each kernel has one.
    check_forms(odd({64, 48, 40, 32, 9}, turn, 5001), 4, seen);
  }
  // Many rows of layers that take turns in shared memory, that take more than one turn of a warp,
  // of one term, of 128 terms, and transposed.
  check_forms(gpu::plain_chain({128, 128, 128, 128, 100, 5}, ActKind::ReLU, 2048), 12, seen);
  check_forms(odd({101, 96, 96, 96, 7}, 1, 1025), 12, seen);
  check_forms(gpu::plain_chain({1, 5, 33, 2}, ActKind::ReLU, 2048), 12, seen);
  check_forms(gpu::plain_chain({128, 16, 10}, ActKind::GELUTanh, 16411), 4, seen);
  check_forms(odd({127, 16, 10}, 3, 2051), 12, seen);
  ChainSpec transposed = odd({40, 70, 70, 9}, 2, 1500);
  transposed.trans_a = true;
  for (gpu::ChainLayer& layer : transposed.layers) layer.trans_b = true;
  check_forms(transposed, 12, seen);
  // Eight layers of a few blocks, and then one of all.
  check_forms(gpu::plain_chain({64, 64, 64, 64, 64, 64, 64, 64, 64, 512}, ActKind::ReLU, 1), 12,
              seen);
  MESSAGE("forms that gave the oracle's values three times:", seen.counts());
  CHECK(seen.forms.contains("streamed"));
  for (const std::string kernel : {"chain", "rows", "lines", "grid", "tiles"}) {
    for (const ActKind act : support::kActs) {
      INFO(kernel << " " << ai::to_string(act));
      CHECK(seen.activations.contains({kernel, act}));
    }
  }
}

// For the tools of compute-sanitizer.
TEST_CASE("small: some forms of every chain kernel give the oracle's values") {
  Seen seen;
  check_forms(odd({70, 260, 5}, 0, 2), 6, seen);
  check_forms(odd({70, 130, 9}, 1, 33), 6, seen);
  check_forms(odd({20, 33, 5}, 2, 1025), 6, seen);
  check_forms(odd({64, 96, 64}, 3, 600), 3, seen);
  MESSAGE("small forms:", seen.counts());
  CHECK(seen.forms.size() == 5);
}

}  // namespace
