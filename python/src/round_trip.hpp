#pragma once

#include "ai/gemm.hpp"
#include "ai/status.hpp"

namespace ge_python {

/// Carries out `plan`, a forward plan over host memory, on a GPU: copies its inputs there, runs it
/// on a stream of its own, copies Y and Z back, waits, and frees what it took. The memory may be
/// pageable. Unsupported without a GPU, OutOfMemory where the operands do not fit. Needs no GIL;
/// any number of threads may call.
[[nodiscard]] ai::Status forward_on_gpu(const ai::GemmPlan& plan, int device) noexcept;

}  // namespace ge_python
