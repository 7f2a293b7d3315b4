#pragma once

#include <cuda.h>

#include "cuda/api.hpp"

namespace ai::cuda {

/// The driver calls that read and write what a kernel node does. The runtime's own refuse the
/// kernels of another copy of the runtime, such as cuBLASLt's. Null where the driver has none; the
/// others need get_params, and are null without it.
struct DriverNodes {
  CUresult (*get_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*set_params)(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*exec_set_params)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) = nullptr;

  [[nodiscard]] explicit operator bool() const noexcept { return set_params != nullptr; }
};

/// Looks the functions up. Leaves no error behind.
[[nodiscard]] DriverNodes driver_nodes(const Api& api) noexcept;

}  // namespace ai::cuda
