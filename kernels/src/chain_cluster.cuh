// Shared memory and barriers of the blocks of a cluster (compute capability 9.0 and later), for the
// chain kernel: PTX ISA 8.1, "st.async", "mapa", "mbarrier.try_wait".
#pragma once

#include "kernels/chain_copy.cuh"

namespace ai::kernels::chain {

/// The same place in the shared memory of another block.
__device__ inline unsigned in_block(unsigned address, int rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// Stores `count` values in a block of the cluster, and tells its barrier.
template <int count>
__device__ inline void send(unsigned to, const float* v, unsigned barrier) {
  if constexpr (count == 1) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
        "f"(v[0]), "r"(barrier)
        : "memory");
  } else if constexpr (count == 2) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            to),
        "f"(v[0]), "f"(v[1]), "r"(barrier)
        : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
          "[%5];" ::"r"(to + 4 * i),
          "f"(v[i]), "f"(v[i + 1]), "f"(v[i + 2]), "f"(v[i + 3]), "r"(barrier)
          : "memory");
    }
  }
}

/// The blocks of the cluster meet: after that each knows the barriers that the others have made,
/// and nothing else. All threads take part.
__device__ inline void meet_begin() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void meet_end() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Until everything that a barrier expects is there.
__device__ inline void wait(unsigned barrier) {
  unsigned done;
  do {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
  } while (done == 0);
}

}  // namespace ai::kernels::chain
