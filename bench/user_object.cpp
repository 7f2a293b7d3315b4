// What a retained user object costs each launch of a graph: the reason why an executable frees its
// memory behind its last launch instead (capture/private/capture/reclaim.hpp).
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "errors.hpp"
#include "timing.hpp"

namespace {

constexpr int kRounds = 31;
constexpr int kLaunches = 200;

void CUDART_CB forget(void*) {}

cudaGraphExec_t fill_graph(cudaStream_t stream, void* data, bool with_user_object) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  bench::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  bench::check(cudaMemsetAsync(data, 0, 256, stream), "cudaMemsetAsync");
  bench::check(cudaStreamEndCapture(stream, &graph), "end capture");
  if (with_user_object) {
    cudaUserObject_t object = nullptr;
    bench::check(cudaUserObjectCreate(&object, data, forget, 1, cudaUserObjectNoDestructorSync),
                 "cudaUserObjectCreate");
    bench::check(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove),
                 "cudaGraphRetainUserObject");
  }
  bench::check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  bench::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return exec;
}

/// Host microseconds of a launch call, launches back to back.
double host_us(cudaStream_t stream, cudaGraphExec_t exec) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    bench::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) (void)cudaGraphLaunch(exec, stream);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / kLaunches);
  }
  return bench::quantile(times);
}

int run() {
  cudaStream_t stream = nullptr;
  void* data = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
    std::puts("skipped: no usable GPU");
    return 77;
  }
  bench::check(cudaMalloc(&data, 256), "cudaMalloc");
  cudaGraphExec_t plain = fill_graph(stream, data, false);
  cudaGraphExec_t retaining = fill_graph(stream, data, true);
  const auto launch = [](cudaGraphExec_t exec) {
    return [exec](cudaStream_t on) { bench::check(cudaGraphLaunch(exec, on), "cudaGraphLaunch"); };
  };
  bench::warm_up(stream, launch(plain), 0.5);
  const auto samples =
      bench::interleaved(stream, {launch(plain), launch(retaining)}, kRounds, kLaunches);
  std::printf("graph of one node           device us   host us per launch\n");
  std::printf("plain                        %8.2f   %8.2f\n", bench::quantile(samples[0]),
              host_us(stream, plain));
  std::printf("retaining a user object      %8.2f   %8.2f\n", bench::quantile(samples[1]),
              host_us(stream, retaining));
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const bench::Failed& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
  }
}
