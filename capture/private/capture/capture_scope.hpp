#pragma once

#include <utility>
#include <vector>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "cuda/error.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// The nodes that the next node on a stream comes after, and how.
struct Leaves {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;

  void unite(const Leaves& other);
};

/// One capture of `stream` into a graph, in thread-local mode. It is ended exactly once: by end(),
/// or by the destructor on every other way out, which also leaves the last-error slot clean. Where
/// CUDA does not give the graph back when the capture ends (an invalidated one), it has done away
/// with it, and destroying it then crashes: the owner is made to forget it.
class CaptureScope {
 public:
  CaptureScope(const cuda::Api& api, cudaStream_t stream) noexcept : api_(api), stream_(stream) {}
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  /// `graph` outlives this object.
  [[nodiscard]] Status begin(cuda::OwnedGraph& graph, const Leaves& after) noexcept;
  /// What was recorded so far ends in `leaves`. Fails if the stream is no longer capturing into the
  /// graph it was begun with.
  [[nodiscard]] Status leaves(Leaves& leaves);
  [[nodiscard]] Status end() noexcept;

  /// Whether something has invalidated the capture, so that another attempt may succeed.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Asks the stream and remembers the answer in broken().
  void look() noexcept;

 private:
  const cuda::Api& api_;
  cudaStream_t stream_;
  cudaError_t close() noexcept;
  void ended_by_step() noexcept;

  cuda::OwnedGraph* graph_ = nullptr;
  bool open_ = false;
  bool broken_ = false;
};

}  // namespace ai::detail
