#include "ai/direct.hpp"

namespace ai::gemm {

Status forward(const GemmForward&, Stream) noexcept {
  return {StatusCode::Unsupported, "not yet"};
}
Status backward(const GemmBackward&, Stream) noexcept {
  return {StatusCode::Unsupported, "not yet"};
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
PlanCacheInfo plan_cache() noexcept {
  return {};
}
void set_plan_cache_limit(std::size_t) noexcept {}
void clear_plan_cache() noexcept {}

}  // namespace ai::gemm
