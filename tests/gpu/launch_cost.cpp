// What Executable::launch costs the host, against a bare cudaGraphLaunch of a graph of the same
// kind: time, allocations and locks.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "ai/capture.hpp"
#include "gpu/call_counter.hpp"
#include "gpu/launch_cost_kernel.hpp"
#include "support/median.hpp"

namespace {

using support::median;

constexpr double kAllowedNs = 100.0;

/// A kernel chain that was captured and instantiated by hand.
class BareGraph {
 public:
  BareGraph(float* counter, int nodes) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    REQUIRE(ai::test::enqueue_increments(counter, nodes, stream) == cudaSuccess);
    REQUIRE(cudaStreamEndCapture(stream, &graph_) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec_, graph_, 0) == cudaSuccess);
    REQUIRE(cudaGraphUpload(exec_, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  }
  ~BareGraph() {
    (void)cudaGraphExecDestroy(exec_);
    (void)cudaGraphDestroy(graph_);
  }
  BareGraph(const BareGraph&) = delete;
  BareGraph& operator=(const BareGraph&) = delete;

  bool launch(cudaStream_t stream) const noexcept {
    return cudaGraphLaunch(exec_, stream) == cudaSuccess;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

/// A device buffer and a stream for one test.
struct Bench {
  float* floats = nullptr;
  cudaStream_t stream = nullptr;

  explicit Bench(std::size_t count) {
    void* data = nullptr;
    REQUIRE(cudaMalloc(&data, count * sizeof(float)) == cudaSuccess);
    floats = static_cast<float*>(data);
    REQUIRE(cudaMemset(floats, 0, count * sizeof(float)) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~Bench() {
    (void)cudaStreamDestroy(stream);
    (void)cudaFree(floats);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  void drain() const { REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess); }
};

ai::Executable captured(const ai::Program& program) {
  ai::CaptureOptions options;
  options.tuning = ai::Tuning::Off;
  ai::Result<ai::Executable> executable = ai::capture(program, options);
  REQUIRE_MESSAGE(executable.ok(), executable.status().to_string());
  return std::move(executable).value();
}

/// One user step: the executable's graph is then node for node the bare one.
ai::Executable captured_increments(float* counter, int nodes) {
  const ai::Tensor tensor = ai::make_tensor_1d(counter, 1);
  ai::Program program;
  const ai::Status added = program.add(ai::UserStep{
      .name = "increments",
      .reads = {tensor},
      .writes = {tensor},
      .cuda = [counter, nodes](const ai::StepContext& context) -> ai::Status {
        if (ai::test::enqueue_increments(counter, nodes, context.stream) == cudaSuccess) return {};
        return {ai::StatusCode::CudaError, "increment"};
      }});
  REQUIRE_MESSAGE(added.ok(), added.to_string());
  return captured(program);
}

/// The smallest forward call: M = 1, N = 8, K = 8, A at `floats`, then B, then Y.
ai::Executable captured_forward(float* floats) {
  ai::GemmForward call;
  call.A = ai::make_tensor_2d(floats, {1, 8});
  call.B = ai::make_tensor_2d(floats + 64, {8, 8});
  call.Y = ai::make_tensor_2d(floats + 128, {1, 8});
  const ai::Result<ai::GemmPlan> plan = ai::plan_forward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  ai::Program program;
  const ai::Status added = program.add(*plan);
  REQUIRE_MESSAGE(added.ok(), added.to_string());
  return captured(program);
}

/// Mean time of a launch in a batch too short to fill the queue.
template <typename Launch>
double batch_ns(const Bench& bench, const Launch& launch) {
  constexpr int kBatch = 20;
  bench.drain();
  bool good = true;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatch; ++i) good = launch() && good;
  const auto end = std::chrono::steady_clock::now();
  bench.drain();
  REQUIRE(good);
  return std::chrono::duration<double, std::nano>(end - begin).count() / kBatch;
}

/// Batches in turn, each going first as often as the other.
template <typename Ours, typename Bare>
void check_time(const std::string& what, const Bench& bench, const Ours& ours, const Bare& bare) {
  constexpr int kWarmup = 200;
  constexpr int kRounds = 2000;
  for (int i = 0; i < kWarmup; ++i) {
    (void)batch_ns(bench, ours);
    (void)batch_ns(bench, bare);
  }
  std::vector<double> ours_ns;
  std::vector<double> bare_ns;
  for (int i = 0; i < kRounds; ++i) {
    if (i % 2 == 0) ours_ns.push_back(batch_ns(bench, ours));
    bare_ns.push_back(batch_ns(bench, bare));
    if (i % 2 != 0) ours_ns.push_back(batch_ns(bench, ours));
  }
  const double ours_median = median(ours_ns);
  const double bare_median = median(bare_ns);
  MESSAGE(what, ": launch ", std::lround(ours_median), " ns, bare cudaGraphLaunch ",
          std::lround(bare_median), " ns, difference ", std::lround(ours_median - bare_median),
          " ns (medians of ", kRounds, ")");
  CHECK(ours_median - bare_median <= kAllowedNs);
}

/// What 1000 launches call. The least of some rounds: now and then the driver grows a pool.
template <typename Launch>
ai::test::CallCounts count_calls(const Bench& bench, const Launch& launch) {
  constexpr int kLaunches = 1000;
  constexpr int kBetweenDrains = 50;
  ai::test::CallCounts least;
  for (int round = 0; round < 5; ++round) {
    ai::test::CallCounts sum;
    bool good = true;
    for (int done = 0; done < kLaunches; done += kBetweenDrains) {
      bench.drain();
      ai::test::start_counting();
      for (int i = 0; i < kBetweenDrains; ++i) good = launch() && good;
      const ai::test::CallCounts part = ai::test::stop_counting();
      sum.allocations += part.allocations;
      sum.locks += part.locks;
    }
    bench.drain();
    REQUIRE(good);
    least.allocations = round == 0 ? sum.allocations : std::min(least.allocations, sum.allocations);
    least.locks = round == 0 ? sum.locks : std::min(least.locks, sum.locks);
  }
  return least;
}

template <typename Ours, typename Bare>
void check_calls(const std::string& what, const Bench& bench, const Ours& ours, const Bare& bare) {
  const ai::test::CallCounts ours_calls = count_calls(bench, ours);
  const ai::test::CallCounts bare_calls = count_calls(bench, bare);
  MESSAGE(what, ", 1000 launches: ", ours_calls.allocations, " allocator calls and ",
          ours_calls.locks, " locks, bare ", bare_calls.allocations, " and ", bare_calls.locks);
  CHECK(ours_calls.allocations == bare_calls.allocations);
  CHECK(ours_calls.locks == bare_calls.locks);
}

}  // namespace

TEST_CASE("the counter counts this program's and the driver's allocations and locks") {
  ai::test::start_counting();
  void* volatile block = std::malloc(8);
  std::free(block);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  (void)pthread_mutex_lock(&mutex);
  (void)pthread_mutex_unlock(&mutex);
  const ai::test::CallCounts own = ai::test::stop_counting();
  CHECK(own.allocations == 2);
  CHECK(own.locks == 1);

  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  ai::test::start_counting();
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  const ai::test::CallCounts driver = ai::test::stop_counting();
  CHECK(driver.allocations > 0);
  CHECK(driver.locks > 0);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("launch costs the host what cudaGraphLaunch of the same nodes costs") {
  for (const int nodes : {1, 4}) {
    const Bench bench(64);
    ai::Executable executable = captured_increments(bench.floats, nodes);
    REQUIRE(executable.nodes().size() == static_cast<std::size_t>(nodes));
    const BareGraph graph(bench.floats, nodes);
    const auto ours = [&] { return executable.launch(bench.stream).ok(); };
    const auto bare = [&] { return graph.launch(bench.stream); };
    const std::string what = std::to_string(nodes) + " user kernel(s)";
    check_time(what, bench, ours, bare);
    check_calls(what, bench, ours, bare);

    REQUIRE(cudaMemset(bench.floats, 0, sizeof(float)) == cudaSuccess);
    CHECK(ours());
    bench.drain();
    float counter = 0.0F;
    REQUIRE(cudaMemcpy(&counter, bench.floats, sizeof counter, cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    CHECK(counter == static_cast<float>(nodes));  // what was timed did its work
  }
}

TEST_CASE("launch of a forward call costs the host what as many bare kernels cost") {
  const Bench bench(256);
  ai::Executable executable = captured_forward(bench.floats);
  const int nodes = static_cast<int>(executable.nodes().size());
  REQUIRE(nodes >= 1);
  const BareGraph graph(bench.floats + 200, nodes);
  const auto ours = [&] { return executable.launch(bench.stream).ok(); };
  const auto bare = [&] { return graph.launch(bench.stream); };
  const std::string what = "forward [1,8] K=8, " + std::to_string(nodes) + " node(s)";
  check_time(what, bench, ours, bare);
  check_calls(what, bench, ours, bare);
}
