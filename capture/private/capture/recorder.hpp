#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ai/executable.hpp"
#include "ai/memory.hpp"
#include "ai/step.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// A step as the recorder sees it.
struct RecordedStep {
  Step* step = nullptr;
  const AddressMap* addresses = nullptr;
  /// The caller's own code: if it declares memory that it writes and yet puts nothing on the stream
  /// it was given, its work went elsewhere and no replay would do it. That is an error.
  bool user = false;
};

/// The only node that a step made, if that is so.
struct StepKernel {
  bool alone = false;  ///< the library's own step made one node or none (described: one kernel)
  cudaGraphNode_t node = nullptr;
};

/// A graph, not yet instantiated, and what is in it.
struct Recording {
  cuda::OwnedGraph graph;
  std::vector<std::size_t> user_nodes;  ///< how many each step of the caller's made
  std::vector<StepKernel> kernels;      ///< for each step, unless Describe::No
  // Only where they are asked for:
  std::vector<Node> nodes;
  std::vector<cudaGraphNode_t> handles;  ///< of `nodes`
  /// Those that cannot be switched off, but made to return at once: cooperative kernels of steps
  /// with state (Step::enqueue). With one switched off driver 580.159 fails the launch.
  std::vector<cudaGraphNode_t> cooperative = {};
  bool has_switches = true;  ///< each other node can be switched off in an executable
};

/// Whether a recording is to say what is in it. What only updates a graph that was recorded before
/// is quicker without. Kernels: only which node each step made, of steps that are not the caller's
/// and form a chain.
enum class Describe { No, Kernels, Yes };

/// Records `steps` into one graph on `stream`, a private one of the current device, each behind
/// exactly its `dependencies` (as ai::dependencies gives them). A capture that something else
/// invalidates is thrown away whole and begun again up to `retries` times. The Status names the
/// step and its first failing call. On return the stream is not capturing, and the last-error slot
/// holds no error of ours. May throw std::bad_alloc.
[[nodiscard]] Result<Recording> record(const cuda::Api& api, cudaStream_t stream,
                                       std::span<const RecordedStep> steps,
                                       const std::vector<std::vector<int>>& dependencies,
                                       int retries, Describe describe = Describe::Yes);

/// Records all of `steps`, one after the other, `copies` times into one chain: what the tuner
/// replays. Begun again as above. May throw std::bad_alloc.
[[nodiscard]] Result<cuda::OwnedGraph> record_chain(const cuda::Api& api, cudaStream_t stream,
                                                    std::span<const std::shared_ptr<Step>> steps,
                                                    const AddressMap& addresses, int copies,
                                                    int retries = 3);

}  // namespace ai::detail
