#include "capture/graph_exec.hpp"

#include <algorithm>

#include "cuda/error.hpp"

namespace ai::detail {

Result<cuda::OwnedGraphExec> instantiate(const cuda::Api& api, cudaGraph_t graph,
                                         cudaStream_t stream) noexcept {
  cudaGraphExec_t handle = nullptr;
  AI_CUDA_RETURN_IF_ERROR(api, graph_instantiate, &handle, graph, 0);
  cuda::OwnedGraphExec exec(api, handle);
  AI_CUDA_RETURN_IF_ERROR(api, graph_upload, handle, stream);
  AI_CUDA_RETURN_IF_ERROR(api, stream_synchronize, stream);
  return exec;
}

Status fence(const cuda::Api& api, cudaGraphExec_t exec, std::span<const cudaGraphNode_t> nodes,
             std::span<const cudaGraphNode_t> but, cudaStream_t stream) noexcept {
  for (cudaGraphNode_t node : nodes) {
    if (std::find(but.begin(), but.end(), node) != but.end()) continue;
    AI_CUDA_RETURN_IF_ERROR(api, graph_node_set_enabled, exec, node, 0);
  }
  AI_CUDA_RETURN_IF_ERROR(api, graph_launch, exec, stream);
  return {};
}

}  // namespace ai::detail
