#include <utility>

#include "kernels/lt_candidates.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::lt_fused {
namespace {

/// cuBLASLt's bias runs along our n; a single column makes any bias of one element such a bias.
std::string reason_of_bias(const ForwardProblem& problem) {
  const BiasKind kind = problem.plan->bias_kind();
  if (kind == BiasKind::None) return {};
  if (kind == BiasKind::PerM || (kind == BiasKind::Scalar && problem.product.n() != 1)) {
    return std::string("its bias is PerN, this one ") + to_string(kind);
  }
  if (problem.bias.count > 1 && problem.bias.stride != 1) {
    return std::string("its bias is contiguous, this one has stride ")
        .append(std::to_string(problem.bias.stride));
  }
  if (alignment_of(problem.bias.data) < kLtBiasAlignment) {
    return "its bias is " + std::to_string(kLtBiasAlignment) + "-byte aligned, this one " +
           std::to_string(alignment_of(problem.bias.data));
  }
  return {};
}

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
  if (std::string of_bias = reason_of_bias(problem); !of_bias.empty()) return of_bias;
  if (!within_span(problem.product)) return "an operand spans 2^31 elements or more";
  return {};
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  const LtRoad road = road_of(problem);
  const Result<LtOffer> offer = ask_lt(machine, road.call);
  AI_RETURN_IF_ERROR(offer.status());
  if (offer->algorithms.empty()) {
    candidates.push_back(
        {.name = road.family, .reason = "cuBLASLt has no algorithm for it", .steps = {}});
    return {};
  }
  for (std::size_t i = 0; i < offer->algorithms.size(); ++i) {
    candidates.push_back(
        lt_candidate(road, std::to_string(i), offer->matmul, offer->algorithms[i]));
    // Some algorithms turn NaN into 0.
    candidates.back().trusted = problem.attrs().act != ActKind::ReLU;
  }
  return {};
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
