#include "kernels/lt_matmul.hpp"

#include <string>
#include <utility>

namespace ai::kernels {
namespace {

constexpr int kMaxAnswers = 64;

Status check_alignment(const char* operand, const void* planned, const void* given) {
  if (alignment_of(given) >= alignment_of(planned)) return {};
  return {StatusCode::Invalid, std::string(operand) + " is " + std::to_string(alignment_of(given)) +
                                   "-byte aligned, expected " +
                                   std::to_string(alignment_of(planned)) +
                                   " because its algorithm was chosen for that"};
}

/// Frees the preference at the end of a scope.
class Preference {
 public:
  explicit Preference(const LtContext& context) noexcept : context_(context) {}
  ~Preference() {
    if (handle_ != nullptr) (void)context_.lt().matmul_preference_destroy(handle_);
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  Status create() noexcept {
    return context_.check(context_.lt().matmul_preference_create(&handle_),
                          "cublasLtMatmulPreferenceCreate");
  }
  template <typename Value>
  Status set(cublasLtMatmulPreferenceAttributes_t attribute, Value value) noexcept {
    return context_.check(
        context_.lt().matmul_preference_set_attribute(handle_, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  }
  [[nodiscard]] cublasLtMatmulPreference_t get() const noexcept { return handle_; }

 private:
  const LtContext& context_;
  cublasLtMatmulPreference_t handle_ = nullptr;
};

}  // namespace

// cuBLASLt counts along columns, so a row-major matrix is to it the transposed one, and
// D^T = op(R)^T op(L)^T: its A is our R, its B our L, its rows our columns.

Result<std::shared_ptr<LtMatmul>> LtMatmul::make(std::shared_ptr<const LtContext> context,
                                                 const LtCall& call) {
  std::shared_ptr<LtMatmul> matmul(new LtMatmul(std::move(context), call));
  AI_RETURN_IF_ERROR(matmul->describe());
  return matmul;
}

LtMatmul::~LtMatmul() {
  const cuda::LtApi& lt = context_->lt();
  for (cublasLtMatrixLayout_t layout : {layout_l_, layout_r_, layout_c_, layout_d_}) {
    if (layout != nullptr) (void)lt.matrix_layout_destroy(layout);
  }
  if (operation_ != nullptr) (void)lt.matmul_desc_destroy(operation_);
}

Status LtMatmul::describe() noexcept {
  const cuda::LtApi& lt = context_->lt();
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return context_->check(
        lt.matmul_desc_set_attribute(operation_, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
  };
  const auto layout = [&](cublasLtMatrixLayout_t& handle, const MatrixView& view) {
    return context_->check(
        lt.matrix_layout_create(&handle, CUDA_R_32F, static_cast<std::uint64_t>(view.cols),
                                static_cast<std::uint64_t>(view.rows), view.ld),
        "cublasLtMatrixLayoutCreate");
  };
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };

  const Product& p = call_.product;
  // Pedantic: plain COMPUTE_32F turns into TF32 where NVIDIA_TF32_OVERRIDE=1 is set.
  AI_RETURN_IF_ERROR(
      context_->check(lt.matmul_desc_create(&operation_, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F),
                      "cublasLtMatmulDescCreate"));
  AI_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operation(p.trans_r)));
  AI_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, operation(p.trans_l)));
  AI_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, call_.epilogue));
  if (call_.bias != nullptr) {
    AI_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call_.bias));
  }
  AI_RETURN_IF_ERROR(layout(layout_r_, p.r));
  AI_RETURN_IF_ERROR(layout(layout_l_, p.l));
  AI_RETURN_IF_ERROR(layout(layout_c_, addend()));
  return layout(layout_d_, p.d);
}

LtAlignments LtMatmul::alignments() const noexcept {
  const Product& p = call_.product;
  return {alignment_of(p.r.data), alignment_of(p.l.data), alignment_of(addend().data),
          alignment_of(p.d.data)};
}

LtQuestion LtMatmul::question(std::size_t workspace_bytes) const noexcept {
  const Product& p = call_.product;
  return {.m = p.m(),
          .n = p.n(),
          .k = p.k(),
          .l_ld = p.l.ld,
          .r_ld = p.r.ld,
          .c_ld = addend().ld,
          .d_ld = p.d.ld,
          .trans_l = p.trans_l,
          .trans_r = p.trans_r,
          .epilogue = call_.epilogue,
          .bias_alignment = call_.bias != nullptr ? alignment_of(call_.bias) : 0,
          .alignments = alignments(),
          .workspace_bytes = workspace_bytes};
}

Result<std::vector<LtAlgorithm>> LtMatmul::algorithms(std::size_t workspace_bytes) const {
  Preference preference(*context_);
  AI_RETURN_IF_ERROR(preference.create());
  AI_RETURN_IF_ERROR(preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                    static_cast<std::uint64_t>(workspace_bytes)));
  constexpr cublasLtMatmulPreferenceAttributes_t kAlignments[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  const LtAlignments aligned = alignments();
  for (std::size_t i = 0; i < aligned.size(); ++i) {
    AI_RETURN_IF_ERROR(preference.set(kAlignments[i], aligned[i]));
  }

  std::vector<cublasLtMatmulHeuristicResult_t> results(kMaxAnswers);
  int count = 0;
  const cublasStatus_t code = context_->lt().matmul_algo_get_heuristic(
      context_->handle(), operation_, layout_r_, layout_l_, layout_c_, layout_d_, preference.get(),
      kMaxAnswers, results.data(), &count);
  std::vector<LtAlgorithm> algorithms;
  // Both codes are seen for shapes it cannot do, and so is success with no answer.
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE) return algorithms;
  AI_RETURN_IF_ERROR(context_->check(code, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes) {
      algorithms.push_back({result.algo, result.workspaceSize});
    }
  }
  return algorithms;
}

Result<std::size_t> LtMatmul::check(const cublasLtMatmulAlgo_t& algo) const {
  cublasLtMatmulHeuristicResult_t result = {};
  AI_RETURN_IF_ERROR(context_->check(
      context_->lt().matmul_algo_check(context_->handle(), operation_, layout_r_, layout_l_,
                                       layout_c_, layout_d_, &algo, &result),
      "cublasLtMatmulAlgoCheck"));
  AI_RETURN_IF_ERROR(context_->check(result.state, "cublasLtMatmulAlgoCheck"));
  return result.workspaceSize;
}

Status LtMatmul::enqueue(const LtAlgorithm& algorithm, void* workspace, const AddressMap& addresses,
                         Stream stream) {
  const Product& p = call_.product;
  const void* r = addresses(p.r.data);
  const void* l = addresses(p.l.data);
  void* d = addresses(p.d.data);
  const void* c = p.beta != 0.0F ? addresses(p.c.data) : d;
  const void* bias = addresses(call_.bias);
  AI_RETURN_IF_ERROR(check_alignment("the right operand", p.r.data, r));
  AI_RETURN_IF_ERROR(check_alignment("the left operand", p.l.data, l));
  AI_RETURN_IF_ERROR(check_alignment("the result", p.d.data, d));
  if (p.beta != 0.0F) AI_RETURN_IF_ERROR(check_alignment("the addend", p.c.data, c));
  if (call_.bias != nullptr && alignment_of(bias) < kLtBiasAlignment) {
    return {StatusCode::Invalid, "bias is " + std::to_string(alignment_of(bias)) +
                                     "-byte aligned, expected 16 because it is fused"};
  }

  std::unique_lock<std::mutex> lock(bias_mutex_, std::defer_lock);
  if (call_.bias != nullptr) {
    lock.lock();
    AI_RETURN_IF_ERROR(
        context_->check(context_->lt().matmul_desc_set_attribute(
                            operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                        "cublasLtMatmulDescSetAttribute"));
  }
  return context_->check(
      context_->lt().matmul(context_->handle(), operation_, &p.alpha, r, layout_r_, l, layout_l_,
                            &p.beta, c, layout_c_, d, layout_d_, &algorithm.algo, workspace,
                            algorithm.workspace_bytes, stream),
      "cublasLtMatmul");
}

}  // namespace ai::kernels
