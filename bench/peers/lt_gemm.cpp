#include "peers/lt_gemm.hpp"

#include <memory>
#include <type_traits>

#include "contestant.hpp"
#include "cuda/lt_api.hpp"

namespace bench {
namespace {

constexpr int kMaxAnswers = 64;

struct Library {
  const ai::cuda::LtApi* api = nullptr;
  cublasLtHandle_t handle = nullptr;
};

void check_lt(const ai::cuda::LtApi& api, cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Failed(what + ": " + api.get_status_name(status) + " (" +
               std::to_string(static_cast<int>(status)) + ")");
}

// One for the process, never destroyed: at exit the driver may be gone.
const Library& library() {
  static const Library loaded = [] {
    const auto api = ai::cuda::lt_api();
    if (!api.ok()) throw Absent(api.status().to_string());
    Library made{*api, nullptr};
    check_lt(*made.api, made.api->create(&made.handle), "cublasLtCreate");
    return made;
  }();
  return loaded;
}

std::string describe_call(const char* call, const GemmProblem& problem) {
  return std::string(call) + " of " + problem.key();
}

}  // namespace

const char* name_of(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return "DEFAULT";
    case CUBLASLT_EPILOGUE_BIAS: return "BIAS";
    case CUBLASLT_EPILOGUE_RELU_BIAS: return "RELU_BIAS";
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS: return "RELU_AUX_BIAS";
    case CUBLASLT_EPILOGUE_GELU_BIAS: return "GELU_BIAS";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS: return "GELU_AUX_BIAS";
    case CUBLASLT_EPILOGUE_DRELU_BGRAD: return "DRELU_BGRAD";
    case CUBLASLT_EPILOGUE_DGELU_BGRAD: return "DGELU_BGRAD";
    case CUBLASLT_EPILOGUE_BGRADA: return "BGRADA";
    default: return "an epilogue without a name here";
  }
}

std::string GemmProblem::key() const {
  std::string text = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  text += trans_l ? " T" : " N";
  text += trans_r ? "T " : "N ";
  text += name_of(epilogue);
  if (aux != nullptr) text += " aux ld " + std::to_string(aux_ld);
  return text;
}

LtGemm::LtGemm(const GemmProblem& problem) : problem_(problem) {
  try {
    describe();
  } catch (...) {
    destroy();
    throw;
  }
}

LtGemm::~LtGemm() {
  destroy();
}

void LtGemm::destroy() {
  const ai::cuda::LtApi& api = *library().api;
  for (cublasLtMatrixLayout_t layout : {layout_l_, layout_r_, layout_d_}) {
    if (layout != nullptr) (void)api.matrix_layout_destroy(layout);
  }
  if (operation_ != nullptr) (void)api.matmul_desc_destroy(operation_);
}

// Row-major D = op(L) op(R) is to cuBLASLt, which counts along columns, D^T = op(R)^T op(L)^T: its
// A is R, its B is L. So the rows of its D are our columns: BIAS runs along them, DRELU_BGRAD sums
// over our rows, and BGRADA sums R over k, which for gW = X^T gZ is the bias gradient.
void LtGemm::describe() {
  const ai::cuda::LtApi& api = *library().api;
  const GemmProblem& p = problem_;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_lt(api, api.matmul_desc_set_attribute(operation_, attribute, &value, sizeof value),
             describe_call("cublasLtMatmulDescSetAttribute", p));
  };
  const auto layout = [&](cublasLtMatrixLayout_t& handle, int rows, int cols) {
    check_lt(api,
             api.matrix_layout_create(&handle, CUDA_R_32F, static_cast<std::uint64_t>(cols),
                                      static_cast<std::uint64_t>(rows), cols),
             describe_call("cublasLtMatrixLayoutCreate", p));
  };
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };

  check_lt(api, api.matmul_desc_create(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
           describe_call("cublasLtMatmulDescCreate", p));
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.trans_r));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.trans_l));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  if (p.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.aux != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_ld);
  }
  layout(layout_l_, p.trans_l ? p.k : p.m, p.trans_l ? p.m : p.k);
  layout(layout_r_, p.trans_r ? p.n : p.k, p.trans_r ? p.k : p.n);
  layout(layout_d_, p.m, p.n);
}

std::vector<LtAlgorithm> LtGemm::heuristic() const {
  const auto& [api, handle] = library();
  cublasLtMatmulPreference_t made = nullptr;
  check_lt(*api, api->matmul_preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const auto destroy_preference = [&, kept = api](cublasLtMatmulPreference_t handle_of) {
    (void)kept->matmul_preference_destroy(handle_of);
  };
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(destroy_preference)>
      preference(made, destroy_preference);
  check_lt(*api,
           api->matmul_preference_set_attribute(preference.get(),
                                                CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                &kLtWorkspaceBytes, sizeof kLtWorkspaceBytes),
           "cublasLtMatmulPreferenceSetAttribute");

  std::vector<cublasLtMatmulHeuristicResult_t> answers(kMaxAnswers);
  int count = 0;
  const cublasStatus_t status =
      api->matmul_algo_get_heuristic(handle, operation_, layout_r_, layout_l_, layout_d_, layout_d_,
                                     preference.get(), kMaxAnswers, answers.data(), &count);
  std::vector<LtAlgorithm> algorithms;
  // Both are seen where it has nothing for a problem, as is success without an answer.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    return algorithms;
  }
  check_lt(*api, status, describe_call("cublasLtMatmulAlgoGetHeuristic", problem_));
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& answer = answers[static_cast<std::size_t>(i)];
    if (answer.state != CUBLAS_STATUS_SUCCESS || answer.workspaceSize > kLtWorkspaceBytes) continue;
    algorithms.push_back({answer.algo, i, answer.workspaceSize});
  }
  return algorithms;
}

void LtGemm::enqueue(const LtAlgorithm& algorithm, void* workspace, cudaStream_t stream) const {
  const auto& [api, handle] = library();
  const float alpha = 1.0F;
  const float beta = 0.0F;
  check_lt(*api,
           api->matmul(handle, operation_, &alpha, problem_.r, layout_r_, problem_.l, layout_l_,
                       &beta, problem_.d, layout_d_, problem_.d, layout_d_, &algorithm.algo,
                       workspace, kLtWorkspaceBytes, stream),
           describe_call("cublasLtMatmul", problem_));
}

}  // namespace bench
