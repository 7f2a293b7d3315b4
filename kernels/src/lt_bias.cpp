#include "kernels/epilogue.hpp"
#include "kernels/lt_candidates.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::lt_bias {
namespace {

/// The product lands in Z, which needs no second pass then, else in Y. It takes C in: the bias
/// comes after that.
Product product_of(const ForwardProblem& problem) noexcept {
  Product product = problem.product;
  if (problem.z.data != nullptr) product.d = problem.z;
  return product;
}

Result<LtRoad> road_of(Machine& machine, const ForwardProblem& problem) {
  LtRoad road = {.family = "lt_bias",
                 .step_name = problem.z.data != nullptr ? "lt_bias Z" : "lt_bias Y",
                 .call = {.product = product_of(problem),
                          .epilogue = CUBLASLT_EPILOGUE_BIAS,
                          .bias = problem.bias.data}};
  Epilogue act;
  act.raw = road.call.product.d;
  act.y = problem.product.d;
  act.act = problem.attrs().act;
  act.slope = problem.attrs().leaky_slope;
  const Result<std::int64_t> resident_threads = machine.resident_threads();
  AI_RETURN_IF_ERROR(resident_threads.status());
  road.after.push_back(make_epilogue_step(machine.api(), *resident_threads, act, "epilogue Y"));
  return road;
}

}  // namespace

std::string reason(const ForwardProblem& problem) {
  const ActKind act = problem.attrs().act;
  if (!problem.has_product()) return "there is no product: K or alpha is 0";
  if (problem.bias.data == nullptr) return "there is no bias";
  if (problem.z.data == nullptr && (act == ActKind::None || act == ActKind::ReLU)) {
    return std::string("bias and ") + ai::to_string(act) + " are one call of cuBLASLt";
  }
  if (std::string of_bias = reason_against_lt_bias(problem); !of_bias.empty()) return of_bias;
  if (!within_span(product_of(problem))) return "an operand spans 2^31 elements or more";
  return {};
}

// A bias that is added loses neither NaN nor Inf, so all are trusted.
Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  const Result<LtRoad> road = road_of(machine, problem);
  AI_RETURN_IF_ERROR(road.status());
  return append_offered(machine, *road, true, candidates);
}

bool searches(const ForwardProblem&) {
  return true;
}

std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                const RecalledCandidate& recalled) {
  const Result<LtRoad> road = road_of(machine, problem);
  return road.ok() ? recall_lt(machine, *road, recalled) : std::nullopt;
}

}  // namespace ai::kernels::lt_bias
