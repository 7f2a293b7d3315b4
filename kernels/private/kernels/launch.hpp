#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "cuda/api.hpp"

namespace ai::kernels {

/// Blocks along x (up to 2^31 - 1) and y (up to kMostBlocksY: what may have more rows goes along
/// x), threads per block along each, dynamic shared memory, how many blocks along x make a cluster
/// (1: none do), and whether all blocks must run at once (a cooperative launch).
struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 256;
  std::size_t shared_bytes = 0;
  std::int64_t blocks_y = 1;
  int threads_y = 1;
  int cluster = 1;
  bool cooperative = false;
};
inline constexpr std::int64_t kMostBlocksY = 65535;

/// Puts `kernel` on `stream`; `arguments` holds the address of each parameter. Zero blocks launch
/// nothing. A refused launch is returned.
[[nodiscard]] Status launch(const cuda::Api& api, const void* kernel, const LaunchShape& shape,
                            Stream stream, void** arguments) noexcept;

/// As above, with the arguments converted to the kernel's own parameter types.
template <typename... Parameters>
[[nodiscard]] Status launch(const cuda::Api& api, void (*kernel)(Parameters...),
                            const LaunchShape& shape, Stream stream,
                            std::type_identity_t<Parameters>... arguments) noexcept {
  void* addresses[] = {const_cast<std::remove_const_t<Parameters>*>(&arguments)...};
  return launch(api, reinterpret_cast<const void*>(kernel), shape, stream, addresses);
}

/// Loads the module of `kernel` on the current device, so that no launch has to: loading is not
/// allowed during a capture.
[[nodiscard]] Status load(const cuda::Api& api, const void* kernel) noexcept;

template <typename... Parameters>
[[nodiscard]] Status load(const cuda::Api& api, void (*kernel)(Parameters...)) noexcept {
  return load(api, reinterpret_cast<const void*>(kernel));
}

/// Prepares `kernel` on the current device, and loads it, for launches of this shape: its shared
/// memory may be more than is common, and its clusters larger. Unsupported where the device has no
/// room for a cluster at all, or not for all blocks of a cooperative launch.
[[nodiscard]] Status prepare_launch(const cuda::Api& api, const void* kernel,
                                    const LaunchShape& shape) noexcept;

/// ceil(work / per_block), at least 1 where there is work, at most `limit` (the kernel strides over
/// the rest).
[[nodiscard]] constexpr std::int64_t blocks_for(std::int64_t work, std::int64_t per_block,
                                                std::int64_t limit) noexcept {
  const std::int64_t wanted = work / per_block + (work % per_block != 0 ? 1 : 0);
  return wanted < limit ? wanted : limit;
}

/// One thread an element: columns along x, rows along y. Blocks are of 64 threads, so that little
/// work spreads over the GPU; where that gives more than `enough` blocks, of up to 256. A matrix
/// with fewer columns gets several rows a block. Preconditions: rows and cols are 1 or more.
[[nodiscard]] LaunchShape element_shape(std::int64_t rows, std::int64_t cols,
                                        std::int64_t enough) noexcept;

}  // namespace ai::kernels
