#pragma once

#include "peers/peer_step.hpp"

namespace bench {

/// The quickest way to do the whole step that is found by changing one thing at a time: the same
/// option in every layer with each number of branches, that number alone, the option of one layer,
/// a runner-up of the GEMMs of every layer or of one GEMM. Each is timed in a graph of its own; a
/// change must gain 1 %. A runner-up that is taken becomes an option of `step`. The network's
/// results, and in TrainStep its parameters, are overwritten.
[[nodiscard]] StepChoice search(PeerStep& step, const Row& row);

}  // namespace bench
