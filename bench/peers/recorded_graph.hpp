#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

namespace bench {

/// Work that was recorded into one graph and uploaded, ready to be launched.
class RecordedGraph {
 public:
  /// Records what `work` enqueues on `stream` and on the streams it forks from it. What `work`
  /// throws goes on to the caller, with no capture left open.
  RecordedGraph(cudaStream_t stream, const std::function<void()>& work);

  void launch(cudaStream_t stream) const;
  [[nodiscard]] int nodes() const { return nodes_; }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t exec) const { (void)cudaGraphExecDestroy(exec); }
  };
  std::unique_ptr<CUgraphExec_st, Destroy> exec_;
  int nodes_ = 0;
};

/// Launches it for `seconds`, so that the GPU leaves its idle clock.
void warm_up(const RecordedGraph& graph, cudaStream_t stream, double seconds);

/// Device time of one launch in microseconds: the median of `samples`, each of which launches it
/// back to back as often as `sample_us` microseconds allow (at least once, at most 100 times),
/// `rough_us` each.
[[nodiscard]] double time_of(const RecordedGraph& graph, cudaStream_t stream, double rough_us,
                             double sample_us, int samples);

/// As time_of, of one launch alone, after another one.
[[nodiscard]] double rough_time_of(const RecordedGraph& graph, cudaStream_t stream);

}  // namespace bench
