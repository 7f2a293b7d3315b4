#include "kernels/epilogue.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::epilogue_only {

std::string reason(const ForwardProblem& problem) {
  return problem.has_product() ? "it computes no product" : std::string();
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  const Result<std::int64_t> resident_threads = machine.resident_threads();
  AI_RETURN_IF_ERROR(resident_threads.status());
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
  candidate.steps.push_back(
      make_epilogue_step(machine.api(), *resident_threads, epilogue, "epilogue Y"));
  candidates.push_back(std::move(candidate));
  return {};
}

}  // namespace ai::kernels::epilogue_only
