// What the direct path costs the host: a known call against its bare steps, the ones that
// Step::enqueue puts on the stream, lowered and prepared beforehand. A call whose pointers move
// costs little more than these, one that is repeated costs less.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ai/ai.hpp"
#include "ai/kernels/backend_factory.hpp"
#include "capture/direct_memo.hpp"
#include "capture/workspace.hpp"
#include "cuda/owners.hpp"
#include "placed_case.hpp"
#include "support/median.hpp"

namespace {

using support::median;

/// As many calls as push each other out of what a thread remembers: made in turn, each is looked at
/// anew and never becomes a graph.
constexpr std::size_t kMoving = ai::detail::RecentCalls::kMost + 1;

ai::Result<ai::GemmPlan> plan_of(const ai::GemmForward& call) {
  return ai::plan_forward(call);
}
ai::Result<ai::GemmPlan> plan_of(const ai::GemmBackward& call) {
  return ai::plan_backward(call);
}

/// The steps of one call over its real addresses, as the direct path chooses them.
class BareSteps {
 public:
  explicit BareSteps(const ai::Result<ai::GemmPlan>& plan) {
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    const auto tasks = ai::kernels::make_cuda_backend(0)->lower({&*plan, 1});
    REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
    for (const ai::Task& task : *tasks) add_first(task);
    std::vector<const ai::Step*> plain;
    for (const auto& step : steps_) plain.push_back(step.get());
    const ai::detail::WorkspacePlan scratch =
        ai::detail::plan_workspace(plain, ai::dependencies(plain), {});
    auto memory = ai::cuda::DeviceMemory::allocate(ai::cuda::runtime_api(), 0, scratch.bytes);
    REQUIRE_MESSAGE(memory.ok(), memory.status().to_string());
    memory_ = std::move(*memory);
    addresses_ = scratch.over(memory_.data());
  }

  [[nodiscard]] bool enqueue(cudaStream_t stream) const {
    for (const auto& step : steps_) {
      if (!step->enqueue(addresses_, stream).ok()) return false;
    }
    return true;
  }
  [[nodiscard]] std::size_t count() const { return steps_.size(); }
  [[nodiscard]] std::size_t scratch_bytes() const { return memory_.bytes(); }

 private:
  void add_first(const ai::Task& task) {
    for (const ai::Candidate& candidate : task.candidates) {
      if (!candidate.applicable() || !candidate.trusted) continue;
      for (const auto& step : candidate.steps) {
        const ai::Status prepared = step->prepare();
        REQUIRE_MESSAGE(prepared.ok(), prepared.to_string());
        steps_.push_back(step);
      }
      return;
    }
    FAIL("no candidate of " << task.name << " applies and is trusted");
  }

  std::vector<std::shared_ptr<ai::Step>> steps_;
  ai::cuda::DeviceMemory memory_;
  ai::AddressMap addresses_;
};

/// Host nanoseconds of one call of `enqueue(i)`, over a batch that leaves room in the launch queue
/// (which holds about a thousand): a full one would be timed instead.
template <typename Enqueue>
double batch_ns(cudaStream_t stream, const Enqueue& enqueue) {
  constexpr std::size_t kBatch = kMoving;  // all of those in turn
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  bool good = true;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kBatch; ++i) good = enqueue(i) && good;
  const auto end = std::chrono::steady_clock::now();
  REQUIRE(good);
  return std::chrono::duration<double, std::nano>(end - begin).count() / kBatch;
}

/// Nanoseconds by which `direct` costs more than `steps`. They are timed in turn, and what counts
/// is the median difference of two neighbours: launches cost now more, now less, by more than what
/// is looked for.
template <typename Direct, typename Steps>
double measure(cudaStream_t stream, const Direct& direct, const Steps& steps,
               const std::string& what) {
  constexpr int kWarmup = 80;
  constexpr int kRounds = 1000;
  std::vector<double> direct_ns;
  std::vector<double> steps_ns;
  std::vector<double> differences;
  for (int i = 0; i < kWarmup + kRounds; ++i) {
    // Each goes first as often as the other.
    const bool direct_first = i % 2 == 0;
    double ours = direct_first ? batch_ns(stream, direct) : 0;
    const double theirs = batch_ns(stream, steps);
    if (!direct_first) ours = batch_ns(stream, direct);
    if (i < kWarmup) continue;
    direct_ns.push_back(ours);
    steps_ns.push_back(theirs);
    differences.push_back(ours - theirs);
  }
  const double difference = median(differences);
  MESSAGE(what, ": direct call ", static_cast<int>(median(direct_ns)), " ns, bare steps ",
          static_cast<int>(median(steps_ns)), " ns, difference ", static_cast<int>(difference),
          " ns (medians of ", kRounds, ")");
  return difference;
}

/// What launching one kernel of the library costs here, in nanoseconds: an epilogue without a
/// product. Hosts differ in it by a factor of two, and in all else they do as much.
double kernel_launch_ns(cudaStream_t stream) {
  gpu::Placed<support::ForwardData> set({16, 64, 0, ai::BiasKind::PerN});
  REQUIRE(set.upload() == cudaSuccess);
  const BareSteps step(plan_of(set.call()));
  REQUIRE(step.count() == 1);
  std::vector<double> rounds;
  for (int i = 0; i < 300; ++i) {
    rounds.push_back(batch_ns(stream, [&](std::size_t) { return step.enqueue(stream); }));
  }
  return median(rounds);
}

/// Direct calls against bare steps.
template <typename Data>
void check_cost(const std::string& what, const support::Case& spec) {
  ai::gemm::clear_plan_cache();
  std::vector<std::unique_ptr<gpu::Placed<Data>>> sets;
  std::vector<BareSteps> bare;
  std::vector<decltype(sets[0]->call())> calls;
  for (std::size_t i = 0; i < kMoving; ++i) {
    sets.push_back(std::make_unique<gpu::Placed<Data>>(spec));
    REQUIRE(sets.back()->upload() == cudaSuccess);
    calls.push_back(sets.back()->call());
    bare.emplace_back(plan_of(calls.back()));
  }
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  const std::string all = what + ", " + std::to_string(bare[0].count()) + " step(s), " +
                          std::to_string(bare[0].scratch_bytes()) + " bytes of scratch";
  CAPTURE(what);
  const auto least_over = [&](std::size_t count, double allowed, const std::string& pointers) {
    const auto direct = [&](std::size_t i) { return gpu::direct(calls[i % count], stream).ok(); };
    const auto steps = [&](std::size_t i) { return bare[i % count].enqueue(stream); };
    // What else runs on the machine can only add.
    double least = measure(stream, direct, steps, all + ", " + pointers);
    for (int again = 0; again < 2 && least > allowed; ++again) {
      least = std::min(least, measure(stream, direct, steps, all + ", " + pointers + ", again"));
    }
    return least;
  };
  const double launch = kernel_launch_ns(stream);
  MESSAGE(what, ": one kernel launch takes ", static_cast<int>(launch), " ns");
  CHECK(least_over(sets.size(), launch, "pointers that move") <= launch);
  CHECK(ai::gemm::plan_cache().graphs == 0);
  const std::size_t limit = ai::gemm::plan_cache().graph_limit;
  ai::gemm::set_graph_limit(0);
  CHECK(least_over(1, launch / 2, "the same, without a graph") <= launch / 2);
  CHECK(least_over(2, launch / 2, "two in turn, without graphs") <= launch / 2);
  CHECK(ai::gemm::plan_cache().graphs == 0);
  ai::gemm::set_graph_limit(limit);
  CHECK(least_over(1, 0.0, "repeated") < 0.0);
  CHECK(ai::gemm::plan_cache().graphs == 1);
  CHECK(least_over(2, 0.0, "two repeated in turn") < 0.0);
  CHECK(ai::gemm::plan_cache().graphs == 2);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  // All roads did what they are timed for.
  for (const auto& set : sets) CHECK(set->wrong() == "");
  for (std::size_t i = 0; i < sets.size(); ++i) {
    REQUIRE(sets[i]->upload() == cudaSuccess);
    REQUIRE(gpu::direct(calls[i], stream).ok());
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(sets[i]->wrong() == "");
  }
  (void)cudaStreamDestroy(stream);
}

TEST_CASE("a known forward call: half a kernel launch more than its own, repeated less") {
  check_cost<support::ForwardData>("forward [16,64] K=64", {16, 64, 64});
}

TEST_CASE("a known forward call with a bias and ReLU: half a launch more, repeated less") {
  check_cost<support::ForwardData>("forward [16,64] K=64, PerN and ReLU",
                                   {16, 64, 64, ai::BiasKind::PerN, ai::ActKind::ReLU});
}

TEST_CASE("a known forward call with a bias and Tanh: half a launch more, repeated less") {
  check_cost<support::ForwardData>("forward [16,64] K=64, PerN and Tanh",
                                   {16, 64, 64, ai::BiasKind::PerN, ai::ActKind::Tanh});
}

TEST_CASE("a known backward call, with scratch: half a launch more, repeated less") {
  support::Case c{16, 64, 64, ai::BiasKind::PerN, ai::ActKind::SiLU};
  c.with_z = true;
  check_cost<support::BackwardData>("backward [16,64] K=64, SiLU, gA gB gBias", c);
}

}  // namespace
