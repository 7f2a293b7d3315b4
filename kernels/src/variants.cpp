#include "kernels/variants.hpp"

#include "kernels/lower.hpp"

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

std::string shape_text(const MatrixView& view) {
  return std::string("[").append(std::to_string(view.rows)) + "," + std::to_string(view.cols) + "]";
}

}  // namespace ai::kernels
