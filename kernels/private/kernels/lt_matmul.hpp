#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ai/status.hpp"
#include "ai/step.hpp"
#include "kernels/lt_context.hpp"
#include "kernels/product.hpp"

namespace ai::kernels {

/// Its kernels load the bias in fours, and no preference tells the heuristic otherwise.
inline constexpr std::uint32_t kLtBiasAlignment = 16;

/// What is asked of cuBLASLt: a product and what it does to the result before it stores it. `bias`
/// runs along n, contiguous, and is read where the epilogue has a bias.
struct LtCall {
  Product product = {};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

/// One algorithm that the heuristic named for a call.
struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo = {};
  std::size_t workspace_bytes = 0;
};

/// A call with its descriptors, shared by the steps of all its algorithms.
class LtMatmul {
 public:
  /// Precondition: the product has elements, and within_span(product).
  [[nodiscard]] static Result<std::shared_ptr<LtMatmul>> make(
      std::shared_ptr<const LtContext> context, const LtCall& call);
  ~LtMatmul();
  LtMatmul(const LtMatmul&) = delete;
  LtMatmul& operator=(const LtMatmul&) = delete;

  [[nodiscard]] const LtCall& call() const noexcept { return call_; }
  [[nodiscard]] const LtContext& context() const noexcept { return *context_; }

  /// The heuristic's answers for at most `workspace_bytes` of scratch, best first; none where it
  /// knows no algorithm. Only the operands' addresses are looked at.
  [[nodiscard]] Result<std::vector<LtAlgorithm>> algorithms(std::size_t workspace_bytes) const;

  /// Enqueues the call over the addresses of one recording. An operand that is less aligned there
  /// than where the algorithm was asked for is Invalid.
  [[nodiscard]] Status enqueue(const LtAlgorithm& algorithm, void* workspace,
                               const AddressMap& addresses, Stream stream);

 private:
  LtMatmul(std::shared_ptr<const LtContext> context, const LtCall& call) noexcept
      : context_(std::move(context)), call_(call) {}
  [[nodiscard]] Status describe() noexcept;

  std::shared_ptr<const LtContext> context_;
  LtCall call_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_l_ = nullptr;
  cublasLtMatrixLayout_t layout_r_ = nullptr;
  cublasLtMatrixLayout_t layout_c_ = nullptr;
  cublasLtMatrixLayout_t layout_d_ = nullptr;
  std::mutex bias_mutex_;  // the bias' address is the one part of the operation that changes
};

/// A step that runs `algorithm`, with scratch of its own where that needs some.
[[nodiscard]] std::shared_ptr<Step> make_lt_step(std::string name, std::shared_ptr<LtMatmul> matmul,
                                                 const LtAlgorithm& algorithm);

}  // namespace ai::kernels
