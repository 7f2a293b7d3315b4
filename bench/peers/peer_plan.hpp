#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "network.hpp"
#include "peers/cublaslt_peer.hpp"
#include "peers/lt_tuning.hpp"

namespace bench {

/// One GEMM or kernel of a peer. It owns what it needs beyond the network's matrices.
struct PeerOp {
  std::string label;  ///< e.g. "RELU_BIAS#3"
  std::function<void(void* workspace, cudaStream_t stream)> enqueue;
  std::size_t workspace_bytes = 0;
  /// Of a GEMM whose next best algorithm is about as quick alone, with the one after that as its
  /// own; null otherwise.
  std::shared_ptr<const PeerOp> runner_up = nullptr;
};
using PeerOps = std::vector<PeerOp>;

/// One way to do a layer: operations to be enqueued in their order.
struct LayerOption {
  std::string name;  ///< the same for the same way in every layer
  PeerOps forward;   ///< makes y, and what `gradient` needs
  PeerOps gradient;  ///< gz from the layer above, perhaps gb; empty for the last layer, gz is gy
  PeerOps weights;   ///< gw and, unless `gradient` has made it, gb; waits for `gradient` alone
  bool saves_z = false;

  [[nodiscard]] std::string label() const;  ///< those of its operations
};

/// The ways there are for each layer, tuned GEMMs in them, the usual one first: never empty.
/// The network's results are overwritten; `workspace` is used during the call alone. Throws Absent
/// where cuBLASLt offers nothing for a layer.
[[nodiscard]] std::vector<std::vector<LayerOption>> plan_peer(const Network& network, PeerKind kind,
                                                              LtTuner& tuner, void* workspace,
                                                              cudaStream_t stream);

}  // namespace bench
