#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

/// What a caller does who captures streams himself.
namespace gpu {

/// Whether the capture of `stream` is there and unharmed.
[[nodiscard]] inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status == cudaStreamCaptureStatusActive;
}

/// A graph of the caller's, as it comes out of a capture.
class CallersGraph {
 public:
  CallersGraph() = default;
  ~CallersGraph() { destroy(); }
  CallersGraph(const CallersGraph&) = delete;
  CallersGraph& operator=(const CallersGraph&) = delete;

  /// Ends the capture of `stream` and instantiates what it gave.
  void take(cudaStream_t stream) {
    REQUIRE(cudaStreamEndCapture(stream, &graph_) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec_, graph_, 0) == cudaSuccess);
  }
  [[nodiscard]] std::vector<cudaGraphNodeType> types() const {
    std::size_t count = 0;
    REQUIRE(cudaGraphGetNodes(graph_, nullptr, &count) == cudaSuccess);
    std::vector<cudaGraphNode_t> nodes(count);
    REQUIRE(cudaGraphGetNodes(graph_, nodes.data(), &count) == cudaSuccess);
    std::vector<cudaGraphNodeType> types(count);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(cudaGraphNodeGetType(nodes[i], &types[i]) == cudaSuccess);
    }
    return types;
  }
  void launch(cudaStream_t stream) const { REQUIRE(cudaGraphLaunch(exec_, stream) == cudaSuccess); }
  void launch_and_wait(cudaStream_t stream) const {
    launch(stream);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  }
  void destroy_graph() {
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
    graph_ = nullptr;
  }
  void destroy() {
    if (exec_ != nullptr) (void)cudaGraphExecDestroy(exec_);
    exec_ = nullptr;
    destroy_graph();
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace gpu
