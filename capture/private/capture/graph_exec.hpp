#pragma once

#include <span>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "cuda/owners.hpp"

namespace ai::detail {

/// An executable of `graph`, sent to the device, so that the first launch is as quick as the
/// others. Waits for `stream`, a private one of the current device.
[[nodiscard]] Result<cuda::OwnedGraphExec> instantiate(const cuda::Api& api, cudaGraph_t graph,
                                                       cudaStream_t stream) noexcept;

/// Makes what is put on `stream` from now on wait for the last launch of `exec`, and switches off
/// its nodes. `nodes` are all of the graph it was instantiated from, each of a kind that has a
/// switch, save `but` those, which do nothing already. Launches of one executable run one after the
/// other, whatever their streams, so one with all nodes switched off begins when the last real one
/// is over: a fence without an event for each launch, without waiting, and without touching the
/// last stream, which may be gone by now.
[[nodiscard]] Status fence(const cuda::Api& api, cudaGraphExec_t exec,
                           std::span<const cudaGraphNode_t> nodes,
                           std::span<const cudaGraphNode_t> but, cudaStream_t stream) noexcept;

}  // namespace ai::detail
