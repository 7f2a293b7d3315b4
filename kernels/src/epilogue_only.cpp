#include "kernels/epilogue.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::epilogue_only {

std::string reason(const ForwardProblem& problem) {
  return problem.has_product() ? "it computes no product" : std::string();
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  const Result<int> sm_count = machine.sm_count();
  AI_RETURN_IF_ERROR(sm_count.status());
  Epilogue epilogue;
  epilogue.c = problem.product.c;
  epilogue.beta = problem.product.beta;
  epilogue.z = problem.z;
  epilogue.y = problem.product.d;
  epilogue.set_bias(problem.plan->bias_kind(), problem.bias);
  epilogue.act = problem.attrs().act;
  epilogue.slope = problem.attrs().leaky_slope;
  Candidate candidate;
  candidate.name = "epilogue";
  candidate.steps.push_back(make_epilogue_step(machine.api(), *sm_count, epilogue, "epilogue Y"));
  candidates.push_back(std::move(candidate));
  return {};
}

}  // namespace ai::kernels::epilogue_only
