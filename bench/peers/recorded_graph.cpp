#include "peers/recorded_graph.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "timing.hpp"

namespace bench {
namespace {

cudaGraph_t record(cudaStream_t stream, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    work();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return graph;
}

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
};

}  // namespace

RecordedGraph::RecordedGraph(cudaStream_t stream, const std::function<void()>& work) {
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(record(stream, work));
  std::size_t nodes = 0;
  check(cudaGraphGetNodes(graph.get(), nullptr, &nodes), "cudaGraphGetNodes");
  nodes_ = static_cast<int>(nodes);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate");
  exec_.reset(exec);
  check(cudaGraphUpload(exec, stream), "cudaGraphUpload");
}

void RecordedGraph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(exec_.get(), stream), "cudaGraphLaunch");
}

void warm_up(const RecordedGraph& graph, cudaStream_t stream, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    for (int i = 0; i < 4; ++i) graph.launch(stream);
    check(cudaStreamSynchronize(stream), "warm-up");
  }
}

double time_of(const RecordedGraph& graph, cudaStream_t stream, double rough_us, double sample_us,
               int samples) {
  const int launches =
      static_cast<int>(std::clamp(sample_us / std::max(rough_us, 0.1), 1.0, 100.0));
  const auto launch = [&](cudaStream_t on) { graph.launch(on); };
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) times.push_back(back_to_back(stream, launch, launches));
  return quantile(std::move(times));
}

double rough_time_of(const RecordedGraph& graph, cudaStream_t stream) {
  graph.launch(stream);
  return back_to_back(
      stream, [&](cudaStream_t on) { graph.launch(on); }, 1);
}

}  // namespace bench
