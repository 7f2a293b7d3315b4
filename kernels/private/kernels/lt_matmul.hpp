#pragma once

#include <array>
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

/// How cuBLASLt's A, B, C and D are aligned, in bytes; 256 stands for all above. They are our right
/// and left operand, the addend (the result where there is none) and the result.
using LtAlignments = std::array<std::uint32_t, 4>;

/// All that the heuristic looks at: equal questions have equal answers. It is told neither alpha
/// nor beta.
struct LtQuestion {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t l_ld = 0;
  std::int64_t r_ld = 0;
  std::int64_t c_ld = 0;
  std::int64_t d_ld = 0;
  bool trans_l = false;
  bool trans_r = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint32_t bias_alignment = 0;  ///< 0: there is no bias
  LtAlignments alignments = {};
  std::size_t workspace_bytes = 0;
  auto operator<=>(const LtQuestion&) const = default;
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

  [[nodiscard]] LtAlignments alignments() const noexcept;
  /// What algorithms() asks.
  [[nodiscard]] LtQuestion question(std::size_t workspace_bytes) const noexcept;

  /// The heuristic's answers for at most `workspace_bytes` of scratch, best first; none where it
  /// knows no algorithm. Only the operands' addresses are looked at.
  [[nodiscard]] Result<std::vector<LtAlgorithm>> algorithms(std::size_t workspace_bytes) const;

  /// The scratch that `algo` takes for this call. An error where it cannot do the call here; Ok
  /// does not mean that the operands are aligned as it demands.
  [[nodiscard]] Result<std::size_t> check(const cublasLtMatmulAlgo_t& algo) const;

  /// Enqueues the call over the addresses of one recording. An operand that is less aligned there
  /// than where the algorithm was asked for is Invalid.
  [[nodiscard]] Status enqueue(const LtAlgorithm& algorithm, void* workspace,
                               const AddressMap& addresses, Stream stream);

 private:
  LtMatmul(std::shared_ptr<const LtContext> context, const LtCall& call) noexcept
      : context_(std::move(context)), call_(call) {}
  [[nodiscard]] Status describe() noexcept;
  /// What cuBLASLt gets as C: where beta is 0, it reads nothing there.
  [[nodiscard]] const MatrixView& addend() const noexcept {
    return call_.product.beta != 0.0F ? call_.product.c : call_.product.d;
  }

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
