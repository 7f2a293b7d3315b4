#include "ai/direct.hpp"

#include <new>

#include "ai/capture.hpp"
#ifdef GE_WITH_CUDA
#include "ai/kernels/backend_factory.hpp"
#include "capture/direct_path.hpp"
#endif

namespace ai::gemm {
namespace {

Status run_on_host(const Result<GemmPlan>& plan) {
  AI_RETURN_IF_ERROR(plan.status());
  Program program;
  AI_RETURN_IF_ERROR(program.add(*plan));
  Result<Executable> executable = capture(program, {.target = Target::Host});
  AI_RETURN_IF_ERROR(executable.status());
  return executable->launch();
}

#ifdef GE_WITH_CUDA
/// Never destroyed: other static objects may still call while the process ends.
detail::DirectPath& path() {
  static detail::DirectPath& instance =
      *new detail::DirectPath(cuda::runtime_api(), &kernels::make_cuda_backend);
  return instance;
}
#endif

template <typename Call>
Status run(const Call& call, Result<GemmPlan> (*plan)(const Call&) noexcept, Stream stream) noexcept
    try {
  if (call.A.device == Device::CPU) return run_on_host(plan(call));
#ifdef GE_WITH_CUDA
  return path().run(detail::DirectCall(call), stream);
#else
  (void)stream;
  AI_RETURN_IF_ERROR(plan(call).status());
  return target_available(Target::CUDA);
#endif
} catch (const std::bad_alloc&) {
  return {StatusCode::OutOfMemory, {}};
}

}  // namespace

Status forward(const GemmForward& call, Stream stream) noexcept {
  return run(call, &plan_forward, stream);
}

Status backward(const GemmBackward& call, Stream stream) noexcept {
  return run(call, &plan_backward, stream);
}

Status forward(const Tensor& A, const Tensor& B, const Tensor* bias, const Tensor& Y,
               const GemmAttrs& attrs, Stream stream, const Tensor* Z) noexcept {
  GemmForward call{.A = A, .B = B, .Y = Y, .attrs = attrs};
  if (attrs.beta != 0.0F) call.C = Y;
  if (bias != nullptr) call.bias = *bias;
  if (Z != nullptr) call.Z = *Z;
  return forward(call, stream);
}

Status backward(const Tensor& A, const Tensor& B, const Tensor* C, const Tensor& gY,
                const Tensor* Z, const Tensor* gA, const Tensor* gB, const Tensor* gC,
                const Tensor* gBias, const GemmAttrs& attrs, Stream stream) noexcept {
  GemmBackward call{.A = A, .B = B, .gY = gY, .attrs = attrs};
  if (C != nullptr) call.C = *C;
  if (Z != nullptr) call.Z = *Z;
  if (gA != nullptr) call.gA = *gA;
  if (gB != nullptr) call.gB = *gB;
  if (gC != nullptr) call.gC = *gC;
  if (gBias != nullptr) call.gBias = *gBias;
  return backward(call, stream);
}

#ifdef GE_WITH_CUDA
PlanCacheInfo plan_cache() noexcept try { return path().info(); } catch (const std::bad_alloc&) {
  return {};
}

void set_plan_cache_limit(std::size_t plans) noexcept try {
  path().set_limit(plans);
} catch (const std::bad_alloc&) {  // of the first use: there is nothing yet to limit
}

void set_graph_limit(std::size_t graphs) noexcept try {
  path().set_graph_limit(graphs);
} catch (const std::bad_alloc&) {  // likewise
}

void clear_plan_cache() noexcept try {
  path().clear();
} catch (const std::bad_alloc&) {  // likewise
}
#else
PlanCacheInfo plan_cache() noexcept {
  return {};
}
void set_plan_cache_limit(std::size_t) noexcept {}
void set_graph_limit(std::size_t) noexcept {}
void clear_plan_cache() noexcept {}
#endif

}  // namespace ai::gemm
