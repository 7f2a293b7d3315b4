#include <utility>

#include "kernels/lt_candidates.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::lt_fused {
namespace {

cublasLtEpilogue_t epilogue_of(bool bias, bool relu) noexcept {
  if (bias) return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

LtRoad road_of(const ForwardProblem& problem) {
  const bool relu = problem.attrs().act == ActKind::ReLU;
  return {.family = "lt_fused",
          .step_name = "lt_fused Y",
          .call = {.product = problem.product,
                   .epilogue = epilogue_of(problem.bias.data != nullptr, relu),
                   .bias = problem.bias.data}};
}

}  // namespace

std::string reason(const ForwardProblem& problem) {
  const ActKind act = problem.attrs().act;
  if (!problem.has_product()) return "there is no product: K or alpha is 0";
  if (problem.z.data != nullptr) return "it stores one result, and Z is asked for too";
  if (act != ActKind::None && act != ActKind::ReLU) {
    return std::string("it has no ") + ai::to_string(act) + " of the same meaning";
  }
  if (std::string of_bias = reason_against_lt_bias(problem); !of_bias.empty()) return of_bias;
  if (!within_span(problem.product)) return "an operand spans 2^31 elements or more";
  return {};
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  // Some algorithms turn NaN into 0.
  const bool trusted = problem.attrs().act != ActKind::ReLU;
  return append_offered(machine, road_of(problem), trusted, candidates);
}

bool searches(const ForwardProblem&) {
  return true;
}

// Only what passed its check has been found best.
std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                const RecalledCandidate& recalled) {
  return recall_lt(machine, road_of(problem), recalled);
}

}  // namespace ai::kernels::lt_fused
