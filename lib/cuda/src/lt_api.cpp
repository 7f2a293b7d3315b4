#include "cuda/lt_api.hpp"

#include <new>
#include <string>

#include "cuda/load_once.hpp"

namespace ai::cuda {
namespace {

constexpr LibraryName kName{"cuBLASLt", "libcublasLt.so.13", "GRAPH_EXECUTOR_CUBLASLT",
                            "nvidia/cublas/lib"};
static_assert(CUBLAS_VER_MAJOR == 13, "kName's soname is of the version compiled against");

Status resolve_all(const LoaderApi& loader, const Library& library, LtApi& lt) {
#define AI_RESOLVE(member, symbol) AI_RETURN_IF_ERROR(resolve(loader, library, #symbol, lt.member))
  AI_RESOLVE(get_version, cublasLtGetVersion);
  AI_RETURN_IF_ERROR(check_major(kName, library, CUBLAS_VER_MAJOR,
                                 static_cast<int>(lt.get_version() / 10000), version_text(lt)));

  AI_RESOLVE(create, cublasLtCreate);
  AI_RESOLVE(destroy, cublasLtDestroy);
  AI_RESOLVE(get_status_name, cublasLtGetStatusName);
  AI_RESOLVE(matmul_desc_create, cublasLtMatmulDescCreate);
  AI_RESOLVE(matmul_desc_destroy, cublasLtMatmulDescDestroy);
  AI_RESOLVE(matmul_desc_set_attribute, cublasLtMatmulDescSetAttribute);
  AI_RESOLVE(matrix_layout_create, cublasLtMatrixLayoutCreate);
  AI_RESOLVE(matrix_layout_destroy, cublasLtMatrixLayoutDestroy);
  AI_RESOLVE(matmul_preference_create, cublasLtMatmulPreferenceCreate);
  AI_RESOLVE(matmul_preference_destroy, cublasLtMatmulPreferenceDestroy);
  AI_RESOLVE(matmul_preference_set_attribute, cublasLtMatmulPreferenceSetAttribute);
  AI_RESOLVE(matmul_algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic);
  AI_RESOLVE(matmul_algo_check, cublasLtMatmulAlgoCheck);
  AI_RESOLVE(matmul, cublasLtMatmul);
#undef AI_RESOLVE
  return {};
}

}  // namespace

Result<LtApi> load_lt_api(const LoaderApi& loader) noexcept try {
  Result<Library> library = open_library(kName, loader);
  if (!library) return library.status();
  LtApi lt{};
  AI_RETURN_IF_ERROR(resolve_all(loader, *library, lt));
  return lt;
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

Result<const LtApi*> lt_api() noexcept try {
  // Never destroyed: objects of static lifetime may still release descriptors through the table.
  static LoadOnce<LtApi>& once = *new LoadOnce<LtApi>(&load_lt_api);
  return once.get(system_loader());
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

std::string lt_version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string version_text(const LtApi& lt) {
  return lt_version_text(lt.get_version());
}

Status to_status(const LtApi& lt, cublasStatus_t code, const char* call) noexcept {
  StatusCode status = StatusCode::CudaError;
  switch (code) {
    case CUBLAS_STATUS_SUCCESS: return {};
    case CUBLAS_STATUS_ALLOC_FAILED: status = StatusCode::OutOfMemory; break;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH: status = StatusCode::Unsupported; break;
    default: break;
  }
  try {
    return {status, std::string(call) + " failed: " + lt.get_status_name(code) + " (" +
                        std::to_string(static_cast<int>(code)) + ")"};
  } catch (const std::bad_alloc&) {
    return {status, {}};
  }
}

}  // namespace ai::cuda
