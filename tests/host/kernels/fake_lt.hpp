#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "cuda/lt_api.hpp"
#include "kernels/lt_context.hpp"

/// cuBLASLt as its manual describes it, over host memory: column-major, counted in its own A, B, C
/// and D. It knows as many algorithms as a test tells it and does the arithmetic in f64.
namespace fake_lt {

struct Layout {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
};
struct Operation {
  cublasComputeType_t compute = {};
  cudaDataType_t scale = {};
  cublasOperation_t a = CUBLAS_OP_N;
  cublasOperation_t b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // A, B, C, D
};
struct Algorithm {
  std::uint64_t id = 0;
  std::size_t workspace = 0;
};
/// One cublasLtMatmul.
struct Call {
  cublasLtHandle_t handle;
  Operation operation;
  Layout a, b, c, d;
  const void* a_data;
  const void* b_data;
  const void* c_data;
  void* d_data;
  float alpha, beta;
  std::uint64_t algorithm;
  cublasLtMatmulAlgo_t algo;
  void* workspace;
  std::size_t workspace_bytes;
};

struct State {
  int loads = 0;
  int handles = 0;  ///< that are alive
  int created = 0;  ///< handles that were ever made; each is another
  int objects = 0;  ///< descriptors, layouts and preferences that are alive
  std::vector<Algorithm> algorithms = {{1, 0}, {2, 1 << 20}, {3, 0}};
  std::vector<Preference> questions;
  /// Algorithms that the heuristic names under no higher limit than this.
  std::map<std::uint64_t, std::uint64_t> named_up_to;
  std::vector<cublasLtMatmulAlgo_t> checks;
  std::map<std::uint64_t, std::size_t> check_says;     ///< scratch, where it is not the heuristic's
  cublasStatus_t check_state = CUBLAS_STATUS_SUCCESS;  ///< in the result of a check
  std::vector<Call> calls;
  bool knows_epilogues = true;  ///< else only DEFAULT has algorithms
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t matmul = CUBLAS_STATUS_SUCCESS;
  std::set<std::uint64_t> refused;  ///< algorithms that the heuristic names and no call may use
  bool computes = true;             ///< else a call touches no memory
};
inline State& state() {
  static State instance;
  return instance;
}

template <typename Object, typename Handle>
cublasStatus_t make(Handle* handle, const Object& object) {
  ++state().objects;
  *handle = reinterpret_cast<Handle>(new Object(object));
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Object, typename Handle>
cublasStatus_t drop(Handle handle) {
  --state().objects;
  delete reinterpret_cast<Object*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Object>
const Object& get(const void* handle) {
  return *static_cast<const Object*>(handle);
}

inline cublasStatus_t create(cublasLtHandle_t* handle) {
  if (state().create != CUBLAS_STATUS_SUCCESS) return state().create;
  ++state().handles;
  *handle = reinterpret_cast<cublasLtHandle_t>(std::uintptr_t{4096} *
                                               static_cast<std::uintptr_t>(++state().created));
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t destroy(cublasLtHandle_t) {
  --state().handles;
  return CUBLAS_STATUS_SUCCESS;
}
inline const char* status_text(cublasStatus_t) {
  return "a status of the fake";
}

inline cublasStatus_t desc_create(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                  cudaDataType_t scale) {
  return make(handle, Operation{.compute = compute, .scale = scale});
}
inline cublasStatus_t desc_destroy(cublasLtMatmulDesc_t handle) {
  return drop<Operation>(handle);
}
inline cublasStatus_t desc_set(cublasLtMatmulDesc_t handle,
                               cublasLtMatmulDescAttributes_t attribute, const void* value,
                               std::size_t bytes) {
  auto& operation = *reinterpret_cast<Operation*>(handle);
  void* target = nullptr;
  std::size_t wanted = sizeof(cublasOperation_t);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: target = &operation.a; break;
    case CUBLASLT_MATMUL_DESC_TRANSB: target = &operation.b; break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: target = &operation.epilogue; break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      target = &operation.bias;
      wanted = sizeof(void*);
      break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t layout_create(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                    std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  const auto r = static_cast<std::int64_t>(rows);
  if (type != CUDA_R_32F || r < 1 || cols < 1 || ld < r) return CUBLAS_STATUS_INVALID_VALUE;
  return make(handle, Layout{r, static_cast<std::int64_t>(cols), ld});
}
inline cublasStatus_t layout_destroy(cublasLtMatrixLayout_t handle) {
  return drop<Layout>(handle);
}

inline cublasStatus_t preference_create(cublasLtMatmulPreference_t* handle) {
  return make(handle, Preference{});
}
inline cublasStatus_t preference_destroy(cublasLtMatmulPreference_t handle) {
  return drop<Preference>(handle);
}
inline cublasStatus_t preference_set(cublasLtMatmulPreference_t handle,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void* value, std::size_t bytes) {
  auto& preference = *reinterpret_cast<Preference*>(handle);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof preference.workspace) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&preference.workspace, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  const int operand = static_cast<int>(attribute) - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (operand < 0 || operand > 3 || bytes != sizeof(std::uint32_t)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  std::memcpy(&preference.alignment[operand], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// All of its bytes mean something.
inline cublasLtMatmulAlgo_t algo_of(std::uint64_t id) {
  cublasLtMatmulAlgo_t algo = {};
  for (std::uint64_t i = 0; i < 8; ++i) algo.data[i] = id * (1 + i * 0x9E3779B97F4A7C15U);
  return algo;
}

inline cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                cublasLtMatmulPreference_t preference, int wanted,
                                cublasLtMatmulHeuristicResult_t results[], int* count) {
  const auto& asked = get<Preference>(preference);
  state().questions.push_back(asked);
  *count = 0;
  if (state().heuristic != CUBLAS_STATUS_SUCCESS) return state().heuristic;
  if (!state().knows_epilogues && get<Operation>(operation).epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const Algorithm& algorithm : state().algorithms) {
    if (algorithm.workspace > asked.workspace || *count == wanted) continue;
    const auto limit = state().named_up_to.find(algorithm.id);
    if (limit != state().named_up_to.end() && asked.workspace > limit->second) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo = algo_of(algorithm.id);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// As the heuristic, it does not look at operands.
inline cublasStatus_t check(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                            cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                            cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo,
                            cublasLtMatmulHeuristicResult_t* result) {
  state().checks.push_back(*algo);
  if (!state().knows_epilogues && get<Operation>(operation).epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const Algorithm& algorithm : state().algorithms) {
    const cublasLtMatmulAlgo_t known = algo_of(algorithm.id);
    if (std::memcmp(&known, algo, sizeof known) != 0) continue;
    const auto other = state().check_says.find(algorithm.id);
    result->workspaceSize = other != state().check_says.end() ? other->second : algorithm.workspace;
    result->state = state().check_state;
    return CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

inline double at(const void* data, const Layout& layout, std::int64_t row, std::int64_t col) {
  return static_cast<double>(static_cast<const float*>(data)[row + col * layout.ld]);
}

inline void compute(const Call& call) {
  const bool bias = call.operation.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                    call.operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool relu = call.operation.epilogue == CUBLASLT_EPILOGUE_RELU ||
                    call.operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool ta = call.operation.a == CUBLAS_OP_T;
  const bool tb = call.operation.b == CUBLAS_OP_T;
  const std::int64_t inner = ta ? call.a.rows : call.a.cols;
  auto* d = static_cast<float*>(call.d_data);
  for (std::int64_t j = 0; j < call.d.cols; ++j) {
    for (std::int64_t i = 0; i < call.d.rows; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += (ta ? at(call.a_data, call.a, k, i) : at(call.a_data, call.a, i, k)) *
               (tb ? at(call.b_data, call.b, j, k) : at(call.b_data, call.b, k, j));
      }
      sum *= static_cast<double>(call.alpha);
      if (call.beta != 0.0F) {
        sum += static_cast<double>(call.beta) * at(call.c_data, call.c, i, j);
      }
      if (bias) sum += static_cast<double>(call.operation.bias[i]);
      d[i + j * call.d.ld] = static_cast<float>(relu ? std::max(sum, 0.0) : sum);
    }
  }
}

inline cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                             const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                             const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                             const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                             cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algo,
                             void* workspace, std::size_t workspace_bytes, cudaStream_t) {
  if (state().matmul != CUBLAS_STATUS_SUCCESS) return state().matmul;
  if (state().refused.contains(algo->data[0])) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Call call = {handle,
                     get<Operation>(operation),
                     get<Layout>(layout_a),
                     get<Layout>(layout_b),
                     get<Layout>(layout_c),
                     get<Layout>(layout_d),
                     a,
                     b,
                     c,
                     d,
                     *static_cast<const float*>(alpha),
                     *static_cast<const float*>(beta),
                     algo->data[0],
                     *algo,
                     workspace,
                     workspace_bytes};
  state().calls.push_back(call);
  if (!state().computes) return CUBLAS_STATUS_SUCCESS;
  // Scratch may hold anything afterwards; what is not ours would show.
  if (workspace_bytes > 0) std::memset(workspace, 0xFF, workspace_bytes);
  compute(call);
  return CUBLAS_STATUS_SUCCESS;
}

inline const ai::cuda::LtApi& api() {
  static const ai::cuda::LtApi table = [] {
    ai::cuda::LtApi lt = {};
    lt.create = &create;
    lt.destroy = &destroy;
    lt.get_version = [] { return std::size_t{130207}; };
    lt.get_status_name = &status_text;
    lt.matmul_desc_create = &desc_create;
    lt.matmul_desc_destroy = &desc_destroy;
    lt.matmul_desc_set_attribute = &desc_set;
    lt.matrix_layout_create = &layout_create;
    lt.matrix_layout_destroy = &layout_destroy;
    lt.matmul_preference_create = &preference_create;
    lt.matmul_preference_destroy = &preference_destroy;
    lt.matmul_preference_set_attribute = &preference_set;
    lt.matmul_algo_get_heuristic = &heuristic;
    lt.matmul_algo_check = &check;
    lt.matmul = &matmul;
    return lt;
  }();
  return table;
}

inline ai::Result<std::shared_ptr<const ai::kernels::LtContext>> load(const ai::cuda::Api& runtime,
                                                                      int /*device*/) {
  ++state().loads;
  return ai::kernels::LtContext::make(runtime, api());
}

}  // namespace fake_lt
