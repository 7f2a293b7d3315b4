// Accesses to memory that several chain kernels make alike, and copies from global to shared memory
// that nobody waits for at once: PTX ISA 7.0, "cp.async".
#pragma once

namespace ai::kernels::chain {

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// `bytes` of as many as `width` elements (1 or 4) have, and zeros; so many elements behind `to`
/// and `from`. Where there are 0 nothing is read, but `from` has to be an address. 16 bytes come
/// past the first cache.
template <int width, int to_offset = 0, int from_offset = 0>
__device__ __forceinline__ void copy(unsigned to, const float* from, int bytes) {
  if constexpr (width == 4) {
    asm volatile("cp.async.cg.shared.global [%0+%3], [%1+%4], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes), "n"(4 * to_offset), "n"(4 * from_offset)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0+%3], [%1+%4], 4, %2;" ::"r"(to), "l"(from),
                 "r"(bytes), "n"(4 * to_offset), "n"(4 * from_offset)
                 : "memory");
  }
}

/// How many bytes there are of `width` elements where `left` are left.
template <int width>
__device__ __forceinline__ int bytes_of(int left) {
  return left >= width ? 4 * width : left > 0 ? 4 * left : 0;
}

/// The thread's copies since the last one make a group.
__device__ __forceinline__ void end_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Until all but the last `pending` groups are there, of this thread.
template <int pending>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Four words that other blocks may be writing: each is seen as a whole.
__device__ __forceinline__ void load_words(const unsigned* from, unsigned* v) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(from)
               : "memory");
}

/// Not before what stands before it, not after what stands after it.
__device__ __forceinline__ void load_shared4(unsigned from, float* v) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(from)
               : "memory");
}

}  // namespace ai::kernels::chain
