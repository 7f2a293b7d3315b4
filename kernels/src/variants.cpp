#include "kernels/variants.hpp"

#include <cstring>
#include <utility>

#include "kernels/epilogue.hpp"
#include "kernels/lower.hpp"

namespace ai::kernels {
namespace {

constexpr std::int64_t kMaxTiles = 4096;

bool same(const LtAlgorithm& a, const LtAlgorithm& b) noexcept {
  return std::memcmp(&a.algo, &b.algo, sizeof a.algo) == 0;
}

std::string product_text(const Product& p) {
  const std::string k = std::to_string(p.k());
  std::string text = "a product [";
  return text.append(std::to_string(p.m())) + "," + k + "] [" + k + "," + std::to_string(p.n()) +
         "]";
}

Status no_algorithm(const Product& product) {
  return {StatusCode::Unsupported, "cuBLASLt has no algorithm for " + product_text(product)};
}

/// A step over the first algorithm that cuBLASLt does not refuse when it is called: those without
/// scratch come first, since tiles may run side by side and each would need its own.
Result<std::shared_ptr<Step>> working_step(const LtOffer& offer, const std::string& step_name) {
  std::shared_ptr<Step> step = make_lt_step(step_name, offer.matmul, offer.fallback);
  const Status first = step->prepare();
  if (first.ok()) return step;
  for (const LtAlgorithm& algorithm : offer.algorithms) {
    if (same(algorithm, offer.fallback)) continue;
    step = make_lt_step(step_name, offer.matmul, algorithm);
    if (step->prepare().ok()) return step;
  }
  return first;
}

/// One step a tile. They are the only candidate, so each has been tried.
Status append_tiles(Machine& machine, const Product& product, const std::string& family,
                    const std::string& step_name, const std::vector<std::shared_ptr<Step>>& after,
                    std::vector<Candidate>& candidates) {
  if (const std::int64_t count = tile_count(product); count > kMaxTiles) {
    return {StatusCode::Unsupported, product_text(product) + " would take " +
                                         std::to_string(count) +
                                         " calls of cuBLASLt, which is limited to 2^31 elements"};
  }
  Candidate candidate;
  candidate.name = family + "/tiles";
  for (const Product& tile : tiles_of(product)) {
    const Result<LtOffer> offer = ask_lt(machine, {.product = tile});
    AI_RETURN_IF_ERROR(offer.status());
    if (offer->algorithms.empty()) return no_algorithm(tile);
    Result<std::shared_ptr<Step>> step = working_step(*offer, step_name);
    AI_RETURN_IF_ERROR(step.status());
    candidate.steps.push_back(*std::move(step));
  }
  candidate.steps.insert(candidate.steps.end(), after.begin(), after.end());
  candidates.push_back(std::move(candidate));
  return {};
}

}  // namespace

Result<LtOffer> ask_lt(Machine& machine, const LtCall& call) {
  const Result<std::shared_ptr<const LtContext>> context = machine.lt();
  AI_RETURN_IF_ERROR(context.status());
  Result<std::shared_ptr<LtMatmul>> matmul = LtMatmul::make(*context, call);
  AI_RETURN_IF_ERROR(matmul.status());
  LtOffer offer;
  offer.matmul = *std::move(matmul);

  for (const std::size_t workspace : {kLtWorkspaceBytes, std::size_t{0}}) {
    Result<std::vector<LtAlgorithm>> answers = offer.matmul->algorithms(workspace);
    AI_RETURN_IF_ERROR(answers.status());
    if (!answers->empty() && (workspace == 0 || offer.algorithms.empty())) {
      offer.fallback = answers->front();
    }
    for (const LtAlgorithm& answer : *answers) {
      bool known = false;
      for (const LtAlgorithm& earlier : offer.algorithms) known = known || same(earlier, answer);
      if (!known) offer.algorithms.push_back(answer);
    }
  }
  return offer;
}

Status append_products(Machine& machine, const Product& product, const std::string& family,
                       const std::string& step_name,
                       const std::vector<std::shared_ptr<Step>>& after,
                       std::vector<Candidate>& candidates) {
  if (!within_span(product)) {
    return append_tiles(machine, product, family, step_name, after, candidates);
  }
  const Result<LtOffer> offer = ask_lt(machine, {.product = product});
  AI_RETURN_IF_ERROR(offer.status());
  if (offer->algorithms.empty()) return no_algorithm(product);

  const auto append = [&](const std::string& variant, const LtAlgorithm& algorithm) {
    Candidate candidate;
    candidate.name = family + "/" + variant;
    candidate.steps.push_back(make_lt_step(step_name, offer->matmul, algorithm));
    candidate.steps.insert(candidate.steps.end(), after.begin(), after.end());
    candidates.push_back(std::move(candidate));
  };
  // A lone answer is its own fallback; with several, the fallback is said again, at the end.
  const std::size_t count = offer->algorithms.size();
  for (std::size_t i = 0; count > 1 && i < count; ++i) {
    append(std::to_string(i), offer->algorithms[i]);
  }
  append("fallback", offer->fallback);
  return {};
}

ForwardProblem forward_problem(const GemmPlan& plan) noexcept {
  const GemmForward& call = plan.forward();
  ForwardProblem problem;
  problem.plan = &plan;
  problem.product = {.l = matrix_view(call.A),
                     .r = matrix_view(call.B),
                     .c = call.attrs.beta != 0.0F ? matrix_view(call.C) : MatrixView{},
                     .d = matrix_view(call.Y),
                     .trans_l = call.attrs.trans_a,
                     .trans_r = call.attrs.trans_b,
                     .alpha = call.attrs.alpha,
                     .beta = call.attrs.beta};
  problem.z = matrix_view(call.Z);
  problem.bias = vector_view(call.bias);
  return problem;
}

std::string shape_text(const MatrixView& view) {
  return std::string("[").append(std::to_string(view.rows)) + "," + std::to_string(view.cols) + "]";
}

}  // namespace ai::kernels
