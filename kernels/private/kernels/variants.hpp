#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/gemm.hpp"
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

/// Why cuBLASLt cannot add the bias; empty where it can or there is none.
[[nodiscard]] std::string reason_against_lt_bias(const ForwardProblem& problem);

/// A family of variants: whether it can serve a problem, and its candidates then.
struct ForwardFamily {
  const char* name;
  /// Why not; empty where it can.
  std::string (*reason)(const ForwardProblem& problem);
  /// Appends the candidates, or one that says why there are none after all.
  Status (*append)(Machine& machine, const ForwardProblem& problem,
                   std::vector<Candidate>& candidates);
  /// Whether append searches for candidates, where the family can serve the problem.
  bool (*searches)(const ForwardProblem& problem);
  /// The candidate that append would have found; none where it is not one of the family, or is no
  /// good here. Precondition: `searches`.
  std::optional<Candidate> (*recall)(Machine& machine, const ForwardProblem& problem,
                                     const RecalledCandidate& recalled);
};

namespace fused {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
[[nodiscard]] bool searches(const ForwardProblem& problem);
[[nodiscard]] std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                              const RecalledCandidate& recalled);
}  // namespace fused
namespace lt_fused {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
[[nodiscard]] bool searches(const ForwardProblem& problem);
[[nodiscard]] std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                              const RecalledCandidate& recalled);
}  // namespace lt_fused
namespace lt_bias {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
[[nodiscard]] bool searches(const ForwardProblem& problem);
[[nodiscard]] std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                              const RecalledCandidate& recalled);
}  // namespace lt_bias
namespace lt_epilogue {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
[[nodiscard]] bool searches(const ForwardProblem& problem);
[[nodiscard]] std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                              const RecalledCandidate& recalled);
}  // namespace lt_epilogue
namespace epilogue_only {
[[nodiscard]] std::string reason(const ForwardProblem& problem);
[[nodiscard]] Status append(Machine& machine, const ForwardProblem& problem,
                            std::vector<Candidate>& candidates);
}  // namespace epilogue_only

/// In order of preference. Exactly one of the last two rows can serve any problem with elements:
/// its last candidate is the fallback.
inline constexpr std::array<ForwardFamily, 5> kForwardFamilies = {{
    {"fused", &fused::reason, &fused::append, &fused::searches, &fused::recall},
    {"lt_fused", &lt_fused::reason, &lt_fused::append, &lt_fused::searches, &lt_fused::recall},
    {"lt_bias", &lt_bias::reason, &lt_bias::append, &lt_bias::searches, &lt_bias::recall},
    {"lt_epilogue", &lt_epilogue::reason, &lt_epilogue::append, &lt_epilogue::searches,
     &lt_epilogue::recall},
    {"epilogue", &epilogue_only::reason, &epilogue_only::append, nullptr, nullptr},
}};

}  // namespace ai::kernels
