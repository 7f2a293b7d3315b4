// Copies from global to shared memory that nobody waits for at once: PTX ISA 7.0, "cp.async". For
// the chain kernels.
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

/// All 16 bytes.
template <int to_offset, int from_offset>
__device__ __forceinline__ void copy16(unsigned to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0+%2], [%1+%3], 16;" ::"r"(to), "l"(from),
               "n"(4 * to_offset), "n"(4 * from_offset)
               : "memory");
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

}  // namespace ai::kernels::chain
