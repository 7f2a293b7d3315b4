#include <iterator>
#include <utility>

#include "kernels/epilogue.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::lt_epilogue {

std::string reason(const ForwardProblem& problem) {
  return problem.has_product() ? std::string() : "there is no product: K or alpha is 0";
}

Status append(Machine& machine, const ForwardProblem& problem, std::vector<Candidate>& candidates) {
  const ActKind act = problem.attrs().act;
  const bool has_z = problem.z.data != nullptr;
  const bool has_bias = problem.bias.data != nullptr;
  Product product = problem.product;

  if (!has_z && !has_bias && act == ActKind::None) {
    // Nothing comes after the product, so lt_fused says all of it: only the fallback is added.
    std::vector<Candidate> all;
    AI_RETURN_IF_ERROR(append_products(machine, product, "lt_epilogue", "lt_gemm Y", {}, all));
    candidates.push_back(std::move(all.back()));
    return {};
  }

  Epilogue epilogue;
  epilogue.y = product.d;
  epilogue.set_bias(problem.plan->bias_kind(), problem.bias);
  epilogue.act = act;
  epilogue.slope = problem.attrs().leaky_slope;
  // The product lands in Y itself where there is no Z. It overwrites C then, if that is Y too, so
  // it must take C in; elsewhere the epilogue does, which leaves cuBLASLt more algorithms.
  product.d = has_z ? problem.z : epilogue.y;
  epilogue.raw = product.d;
  if (product.beta != 0.0F && product.c.data != product.d.data) {
    epilogue.c = std::exchange(product.c, {});
    epilogue.beta = std::exchange(product.beta, 0.0F);
  }
  if (has_bias || epilogue.c.data != nullptr) epilogue.z = problem.z;  // else raw is Z already

  const Result<std::int64_t> resident_threads = machine.resident_threads();
  AI_RETURN_IF_ERROR(resident_threads.status());
  return append_products(
      machine, product, "lt_epilogue", has_z ? "lt_gemm Z" : "lt_gemm Y",
      {make_epilogue_step(machine.api(), *resident_threads, epilogue, "epilogue Y")}, candidates);
}

}  // namespace ai::kernels::lt_epilogue
