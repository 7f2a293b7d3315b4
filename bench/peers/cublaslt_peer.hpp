#pragma once

#include <memory>

#include "contestant.hpp"
#include "row.hpp"

namespace bench {

enum class PeerKind {
  /// Whatever is quickest on cuBLASLt: fused epilogues, the bit mask of ReLU, no Z, NaN may be
  /// lost.
  Fast,
  /// The outputs and meaning of ours: f32 Z wherever there is a backward, every gBias, NaN kept.
  Same,
};

/// A row as an expert writes it by hand on cuBLASLt, in one graph, over `network`, which outlives
/// it. Every GEMM uses the quickest of up to 64 heuristic answers, timed in graph replays, or the
/// next where the whole step is quicker with it; what one process has timed once it knows for its
/// other rows. The current device is used. Throws Absent where cuBLASLt is not there or offers no
/// algorithm, else Failed.
[[nodiscard]] std::unique_ptr<Contestant> make_cublaslt_peer(Network& network, PeerKind kind);

}  // namespace bench
