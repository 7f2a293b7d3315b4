#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <string>

#include "ai/status.hpp"
#include "cuda/dynamic_library.hpp"

namespace ai::cuda {

/// Every cuBLASLt function the library calls.
struct LtApi {
  decltype(&::cublasLtCreate) create;
  decltype(&::cublasLtDestroy) destroy;
  decltype(&::cublasLtGetVersion) get_version;
  decltype(&::cublasLtGetStatusName) get_status_name;
  decltype(&::cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&::cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&::cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&::cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&::cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&::cublasLtMatmulPreferenceCreate) matmul_preference_create;
  decltype(&::cublasLtMatmulPreferenceDestroy) matmul_preference_destroy;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) matmul_preference_set_attribute;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) matmul_algo_get_heuristic;
  decltype(&::cublasLtMatmulAlgoCheck) matmul_algo_check;
  decltype(&::cublasLtMatmul) matmul;
};

/// cuBLASLt, loaded by the first call that needs it (about 0.1 s), and remembered, as is that
/// it cannot be: Unsupported, where the library is not found or has another major version than the
/// one compiled against. The table lives as long as the process. Thread-safe.
[[nodiscard]] Result<const LtApi*> lt_api() noexcept;

/// As lt_api(), through `loader` and without memory.
[[nodiscard]] Result<LtApi> load_lt_api(const LoaderApi& loader) noexcept;

/// A version in CUBLAS_VERSION's encoding: 130100 -> "13.1.0". May throw std::bad_alloc.
[[nodiscard]] std::string lt_version_text(std::size_t version);
/// The one that `lt` says of itself. As above.
[[nodiscard]] std::string version_text(const LtApi& lt);

/// CUBLAS_STATUS_ALLOC_FAILED -> OutOfMemory; NOT_SUPPORTED and ARCH_MISMATCH -> Unsupported;
/// everything else that is no success -> CudaError. The message names `call` and the code.
[[nodiscard]] Status to_status(const LtApi& lt, cublasStatus_t code, const char* call) noexcept;

}  // namespace ai::cuda
