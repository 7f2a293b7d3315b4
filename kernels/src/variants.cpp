#include "kernels/variants.hpp"

#include "kernels/lower.hpp"
#include "kernels/lt_matmul.hpp"

namespace ai::kernels {

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

// cuBLASLt's bias runs along our n; a single column makes any bias of one element such a bias.
std::string reason_against_lt_bias(const ForwardProblem& problem) {
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

std::string shape_text(const MatrixView& view) {
  return std::string("[").append(std::to_string(view.rows)) + "," + std::to_string(view.cols) + "]";
}

}  // namespace ai::kernels
