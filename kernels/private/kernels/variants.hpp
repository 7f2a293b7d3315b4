#pragma once

#include <array>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/gemm.hpp"
#include "kernels/lt_matmul.hpp"
#include "kernels/machine.hpp"
#include "kernels/product.hpp"

namespace ai::kernels {

/// A forward plan as its variants see it.
struct ForwardProblem {
  const GemmPlan* plan = nullptr;
  /// alpha * op(A) op(B) + beta * C into Y. C is absent where beta is 0.
  Product product = {};
  MatrixView z = {};
  VectorView bias = {};

  [[nodiscard]] const GemmAttrs& attrs() const noexcept { return plan->attrs(); }
  /// Whether A and B take part at all.
  [[nodiscard]] bool has_product() const noexcept {
    return product.k() > 0 && product.alpha != 0.0F;
  }
};
[[nodiscard]] ForwardProblem forward_problem(const GemmPlan& plan) noexcept;

/// A family of variants: whether it can serve a problem, and its candidates then.
struct ForwardFamily {
  const char* name;
  /// Why not; empty where it can.
  std::string (*reason)(const ForwardProblem& problem);
  /// Appends the candidates, or one that says why there are none after all.
  Status (*append)(Machine& machine, const ForwardProblem& problem,
                   std::vector<Candidate>& candidates);
};

namespace lt_fused {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
}  // namespace lt_fused
namespace lt_epilogue {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
}  // namespace lt_epilogue
namespace epilogue_only {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
}  // namespace epilogue_only

/// In order of preference. Exactly one of the last two rows can serve any problem with elements:
/// its last candidate is the fallback.
inline constexpr std::array<ForwardFamily, 3> kForwardFamilies = {{
    {"lt_fused", &lt_fused::reason, &lt_fused::append},
    {"lt_epilogue", &lt_epilogue::reason, &lt_epilogue::append},
    {"epilogue", &epilogue_only::reason, &epilogue_only::append},
}};

/// Scratch that the heuristic may plan with; split sums over k use it.
inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{32} << 20;

/// What cuBLASLt offers for one call.
struct LtOffer {
  std::shared_ptr<LtMatmul> matmul;
  /// Best first, none twice: those with scratch, then those that only show up without.
  std::vector<LtAlgorithm> algorithms;
  /// The first answer for no scratch at all; the very first where there is none.
  LtAlgorithm fallback = {};
};
/// No algorithms: cuBLASLt has none for the call.
[[nodiscard]] Result<LtOffer> ask_lt(Machine& machine, const LtCall& call);

/// Candidates `family`/0, /1, ... and `family`/fallback that run the plain product, each followed
/// by `after` (which may be empty). Unsupported where cuBLASLt cannot do the product. A product
/// beyond kMaxSpan is done in tiles, as the fallback alone.
[[nodiscard]] Status append_products(Machine& machine, const Product& product,
                                     const std::string& family, const std::string& step_name,
                                     const std::vector<std::shared_ptr<Step>>& after,
                                     std::vector<Candidate>& candidates);

}  // namespace ai::kernels
