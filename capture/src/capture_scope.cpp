#include "capture/capture_scope.hpp"

#include <cstring>

namespace ai::detail {

void Leaves::unite(const Leaves& other) {
  for (std::size_t i = 0; i < other.nodes.size(); ++i) {
    bool known = false;
    for (std::size_t j = 0; j < nodes.size() && !known; ++j) {
      known = nodes[j] == other.nodes[i] &&
              std::memcmp(&edges[j], &other.edges[i], sizeof(cudaGraphEdgeData)) == 0;
    }
    if (known) continue;
    nodes.push_back(other.nodes[i]);
    edges.push_back(other.edges[i]);
  }
}

CaptureScope::~CaptureScope() {
  if (!open_) return;
  (void)close();
  (void)api_.get_last_error();
}

cudaError_t CaptureScope::close() noexcept {
  open_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t code = api_.stream_end_capture(stream_, &graph);
  if (code == cudaErrorStreamCaptureInvalidated) broken_ = true;
  if (graph != graph_->get()) {
    (void)graph_->release();
    // A step that began a capture of its own has left a graph that nobody else knows of.
    if (graph != nullptr) (void)api_.graph_destroy(graph);
  }
  return code;
}

// Whoever ended the capture was given the graph, and may have destroyed it.
void CaptureScope::ended_by_step() noexcept {
  open_ = false;
  (void)graph_->release();
}

Status CaptureScope::begin(cuda::OwnedGraph& graph, const Leaves& after) noexcept {
  AI_CUDA_RETURN_IF_ERROR(api_, stream_begin_capture_to_graph, stream_, graph.get(),
                          after.nodes.data(), after.edges.data(), after.nodes.size(),
                          cudaStreamCaptureModeThreadLocal);
  graph_ = &graph;
  open_ = true;
  return {};
}

Status CaptureScope::leaves(Leaves& leaves) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  AI_CUDA_RETURN_IF_ERROR(api_, stream_get_capture_info, stream_, &status, nullptr, &graph, &nodes,
                          &edges, &count);
  if (status == cudaStreamCaptureStatusInvalidated) {
    broken_ = true;
    return {StatusCode::CaptureInvalidated,
            "the capture was invalidated: by a call that is not allowed during capture, or by "
            "another thread"};
  }
  if (status == cudaStreamCaptureStatusNone) {
    ended_by_step();
    return {StatusCode::Invalid, "it ended the capture of the stream it was given"};
  }
  if (graph != graph_->get()) {
    return {StatusCode::Invalid, "it began a capture of its own on the stream it was given"};
  }
  // The arrays are the driver's and live until the next call on the stream.
  leaves.nodes.assign(nodes, nodes + count);
  if (edges != nullptr) {
    leaves.edges.assign(edges, edges + count);
  } else {
    leaves.edges.assign(count, cudaGraphEdgeData{});
  }
  return {};
}

Status CaptureScope::end() noexcept {
  return cuda::to_status(api_, close(), "cudaStreamEndCapture");
}

void CaptureScope::look() noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (api_.stream_is_capturing(stream_, &status) != cudaSuccess) {
    (void)api_.get_last_error();
    return;
  }
  broken_ = broken_ || status == cudaStreamCaptureStatusInvalidated;
  if (status == cudaStreamCaptureStatusNone) ended_by_step();
}

}  // namespace ai::detail
