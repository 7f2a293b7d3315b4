#include <utility>

#include "kernels/epilogue.hpp"
#include "kernels/lt_candidates.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::lt_epilogue {
namespace {

/// Whether nothing comes after the product.
bool is_product_alone(const ForwardProblem& problem) noexcept {
  return problem.z.data == nullptr && problem.bias.data == nullptr &&
         problem.attrs().act == ActKind::None;
}

/// The product lands in Y itself where there is no Z. It overwrites C then, if that is Y too, so it
/// must take C in; elsewhere the epilogue does, which leaves cuBLASLt more algorithms.
Product product_of(const ForwardProblem& problem) noexcept {
  Product product = problem.product;
  if (is_product_alone(problem)) return product;
  if (problem.z.data != nullptr) product.d = problem.z;
  if (product.beta != 0.0F && product.c.data != product.d.data) {
    product.c = {};
    product.beta = 0.0F;
  }
  return product;
}

Result<LtRoad> road_of(Machine& machine, const ForwardProblem& problem) {
  const bool has_z = problem.z.data != nullptr;
  LtRoad road = {.family = "lt_epilogue",
                 .step_name = has_z ? "lt_gemm Z" : "lt_gemm Y",
                 .call = {.product = product_of(problem)}};
  if (is_product_alone(problem)) return road;

  const Product& product = road.call.product;
  Epilogue epilogue;
  epilogue.raw = product.d;
  epilogue.y = problem.product.d;
  epilogue.set_bias(problem.plan->bias_kind(), problem.bias);
  epilogue.act = problem.attrs().act;
  epilogue.slope = problem.attrs().leaky_slope;
  if (product.beta != problem.product.beta) {
    epilogue.c = problem.product.c;
    epilogue.beta = problem.product.beta;
  }
  // Else raw is Z already.
  if (problem.bias.data != nullptr || epilogue.c.data != nullptr) epilogue.z = problem.z;

  const Result<std::int64_t> resident_threads = machine.resident_threads();
  AI_RETURN_IF_ERROR(resident_threads.status());
  road.after.push_back(
      make_epilogue_step(machine.api(), *resident_threads, epilogue, "epilogue Y"));
  return road;
}

}  // namespace

std::string reason(const ForwardProblem& problem) {
  return problem.has_product() ? std::string() : "there is no product: K or alpha is 0";
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  const Result<LtRoad> road = road_of(machine, problem);
  AI_RETURN_IF_ERROR(road.status());
  if (!is_product_alone(problem)) return append_products(machine, *road, candidates);
  // lt_fused says all of it: only the fallback is added.
  std::vector<Candidate> all;
  AI_RETURN_IF_ERROR(append_products(machine, *road, all));
  candidates.push_back(std::move(all.back()));
  return {};
}

bool searches(const ForwardProblem& problem) {
  return within_span(product_of(problem));
}

std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                const RecalledCandidate& recalled) {
  const Result<LtRoad> road = road_of(machine, problem);
  return road.ok() ? recall_lt(machine, *road, recalled) : std::nullopt;
}

}  // namespace ai::kernels::lt_epilogue
