#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "ai/status.hpp"

namespace bench {

/// A multilayer perceptron with ReLU between its layers as an expert writes it by hand: one
/// cublasLtMatmul a layer with its bias and ReLU fused, the fastest of up to 64 heuristic answers
/// by timing, all captured into one graph. Row-major f32, CUBLAS_COMPUTE_32F, 32 MiB workspace.
class CublasLtChain {
 public:
  /// `activations` holds widths.size() buffers, [batch, widths[i]]; weights[i] is
  /// [widths[i], widths[i+1]], biases[i] [widths[i+1]]. All are borrowed.
  [[nodiscard]] static ai::Result<CublasLtChain> make(const std::vector<int>& widths, int batch,
                                                      const std::vector<float*>& activations,
                                                      const std::vector<float*>& weights,
                                                      const std::vector<float*>& biases);
  CublasLtChain(CublasLtChain&&) noexcept;
  CublasLtChain& operator=(CublasLtChain&&) noexcept;
  ~CublasLtChain();

  void launch(cudaStream_t stream) const;
  /// The heuristic answer that won, for each layer.
  [[nodiscard]] const std::vector<int>& picks() const;

 private:
  struct Impl;
  explicit CublasLtChain(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bench
