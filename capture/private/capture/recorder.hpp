#pragma once

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
  /// The caller's own code: if it declares memory that it writes and yet puts nothing on the stream
  /// it was given, its work went elsewhere and no replay would do it. That is an error.
  bool user = false;
};

/// A graph, not yet instantiated, and what is in it.
struct Recording {
  cuda::OwnedGraph graph;
  std::vector<Node> nodes;
  std::vector<cudaGraphNode_t> handles;  ///< of `nodes`
  bool has_switches = true;              ///< each node can be switched off in an executable
};

/// Records `steps` into one graph on a private stream of the current device, each behind exactly
/// its `dependencies` (as ai::dependencies gives them). A capture that something else invalidates
/// is thrown away whole and begun again up to `retries` times. The Status names the step and its
/// first failing call. On return no stream is capturing, and the last-error slot holds no error of
/// ours. May throw std::bad_alloc.
[[nodiscard]] Result<Recording> record(const cuda::Api& api, std::span<const RecordedStep> steps,
                                       const std::vector<std::vector<int>>& dependencies,
                                       const AddressMap& addresses, int retries);

/// Records all of `steps`, one after the other, `copies` times into one chain: what the tuner
/// replays. Begun again as above. May throw std::bad_alloc.
[[nodiscard]] Result<cuda::OwnedGraph> record_chain(const cuda::Api& api, cudaStream_t stream,
                                                    std::span<const std::shared_ptr<Step>> steps,
                                                    const AddressMap& addresses, int copies,
                                                    int retries = 3);

}  // namespace ai::detail
