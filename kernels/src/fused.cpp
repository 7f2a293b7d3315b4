#include "fused.hpp"

#include <utility>

#include "fused_step.hpp"
#include "kernels/fused_products.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels {
namespace {

constexpr const char* kTooFar = "an operand spans 2^31 elements or more";

bool is_within_span(const MatrixView& view) noexcept {
  return view.data == nullptr || view.rows <= 1 ||
         (view.rows - 1) * view.ld + view.cols <= kMaxSpan;
}

/// Why no block can hold sums of it, or should.
std::string reason_of_extents(const Product& product) {
  const FusedExtents e = fused_extents(product);
  if (e.m > kFusedMost) {
    return "M is " + std::to_string(product.m()) + " and N " + std::to_string(product.n()) +
           ", it serves up to " + std::to_string(kFusedMost) + " of either";
  }
  constexpr std::int64_t kMostRounds = 16;
  constexpr std::int64_t kFewBlocks = 64;
  const FusedShape shape = fused_shapes(product).front();
  const std::int64_t blocks = fused_blocks(product, shape);
  if (blocks < kFewBlocks && fused_rounds(product, shape) > kMostRounds) {
    return "its blocks do not share a sum: K = " + std::to_string(e.k) + " would keep " +
           std::to_string(blocks) + " busy and leave the GPU idle";
  }
  return {};
}

Candidate named(std::string name, std::shared_ptr<Step> step) {
  Candidate candidate;
  candidate.recipe = name;
  candidate.name = std::move(name);
  candidate.steps.push_back(std::move(step));
  return candidate;
}

void append_shapes(const cuda::Api& api, const FusedCall& call, const std::string& step_name,
                   std::vector<Candidate>& candidates) {
  const std::vector<FusedShape> shapes = fused_shapes(call.product);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    candidates.push_back(
        named("fused/" + std::to_string(i), make_fused_step(api, call, shapes[i], step_name)));
  }
}

std::optional<Candidate> find(std::vector<Candidate> candidates,
                              const RecalledCandidate& recalled) {
  for (Candidate& candidate : candidates) {
    if (candidate.applicable() && candidate.name == recalled.name &&
        candidate.recipe == recalled.recipe) {
      return std::move(candidate);
    }
  }
  return std::nullopt;
}

FusedCall call_of(const ForwardProblem& problem) {
  return {.product = problem.product,
          .z = problem.z,
          .bias = problem.bias,
          .bias_kind = problem.plan->bias_kind(),
          .act = problem.attrs().act,
          .slope = problem.attrs().leaky_slope};
}

}  // namespace

FusedKernel fused_kernel(ActKind act, const FusedForm& form) noexcept {
  if (const FusedKernel kernel = linear_fused_kernel(act, form)) return kernel;
  if (const FusedKernel kernel = exp_fused_kernel(act, form)) return kernel;
  return gelu_fused_kernel(act, form);
}

void append_fused_products(const cuda::Api& api, const Product& product, const std::string& operand,
                           std::vector<Candidate>& candidates) {
  const auto refuse = [&](std::string reason) {
    candidates.push_back({.name = "fused", .reason = std::move(reason), .steps = {}});
  };
  if (!within_span(product)) return refuse(kTooFar);
  const std::string step_name = "fused " + operand;
  const bool is_outer = product.k() <= kFusedMost;
  if (is_outer) {
    candidates.push_back(named("fused/outer", make_outer_step(api, product, step_name)));
  }
  if (std::string reason = reason_of_extents(product); reason.empty()) {
    FusedCall call;
    call.product = product;
    append_shapes(api, call, step_name, candidates);
  } else if (!is_outer) {
    refuse(std::move(reason));
  }
}

std::optional<Candidate> recall_fused_product(const cuda::Api& api, const Product& product,
                                              const std::string& operand,
                                              const RecalledCandidate& recalled) {
  std::vector<Candidate> candidates;
  append_fused_products(api, product, operand, candidates);
  return find(std::move(candidates), recalled);
}

namespace fused {

std::string reason(const ForwardProblem& problem) {
  if (!problem.has_product()) return "there is no product: K or alpha is 0";
  const bool is_far =
      problem.bias.count > 1 && problem.bias.stride > (kMaxSpan - 1) / (problem.bias.count - 1);
  if (is_far || !within_span(problem.product) || !is_within_span(problem.z)) return kTooFar;
  return reason_of_extents(problem.product);
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  append_shapes(machine.api(), call_of(problem), "fused Y", candidates);
  return {};
}

bool searches(const ForwardProblem&) {
  return true;
}

std::optional<Candidate> recall(Machine& machine, const ForwardProblem& problem,
                                const RecalledCandidate& recalled) {
  std::vector<Candidate> candidates;
  append_shapes(machine.api(), call_of(problem), "fused Y", candidates);
  return find(std::move(candidates), recalled);
}

}  // namespace fused
}  // namespace ai::kernels
