#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/// Of every stream that cuBLASLt works on.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

/// D[m,n] = op(L) op(R), everything row-major and packed, f32, then what the epilogue says.
struct GemmProblem {
  int m = 0, n = 0, k = 0;
  bool trans_l = false;  ///< L is stored [k,m]
  bool trans_r = false;  ///< R is stored [n,k]
  const float* l = nullptr;
  const float* r = nullptr;
  float* d = nullptr;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float* bias = nullptr;    ///< [n]; read, or written by a BGRAD epilogue
  void* aux = nullptr;      ///< [m, aux_ld]: bits for ReLU, floats for GELU
  std::int64_t aux_ld = 0;  ///< in its elements

  /// All of it but the addresses, which are taken to be 256-byte aligned.
  [[nodiscard]] std::string key() const;
};

[[nodiscard]] const char* name_of(cublasLtEpilogue_t epilogue);

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo = {};
  int answer = 0;  ///< its place among the heuristic's answers
  std::size_t workspace_bytes = 0;
};

/// One described matmul of cuBLASLt, CUBLAS_COMPUTE_32F. Throws Absent where the library is not to
/// be had, Failed with the call and its status otherwise.
class LtGemm {
 public:
  explicit LtGemm(const GemmProblem& problem);
  ~LtGemm();
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;

  [[nodiscard]] const GemmProblem& problem() const { return problem_; }

  /// What the heuristic answers, best first, up to 64; empty where it does not offer this problem.
  [[nodiscard]] std::vector<LtAlgorithm> heuristic() const;

  /// `workspace` has kLtWorkspaceBytes.
  void enqueue(const LtAlgorithm& algorithm, void* workspace, cudaStream_t stream) const;

 private:
  void describe();
  void destroy();

  GemmProblem problem_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_l_ = nullptr;
  cublasLtMatrixLayout_t layout_r_ = nullptr;
  cublasLtMatrixLayout_t layout_d_ = nullptr;
};

}  // namespace bench
