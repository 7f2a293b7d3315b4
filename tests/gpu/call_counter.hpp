#pragma once

namespace ai::test {

/// Calls of this thread since counting began, whoever made them: this program, the CUDA runtime or
/// the driver.
struct CallCounts {
  long allocations = 0;  ///< malloc, calloc, realloc, free, posix_memalign, aligned_alloc
  long locks = 0;        ///< pthread mutexes and read-write locks, also tried ones
};

/// Starts counting in this thread from zero.
void start_counting() noexcept;
/// Stops counting in this thread.
CallCounts stop_counting() noexcept;

}  // namespace ai::test
