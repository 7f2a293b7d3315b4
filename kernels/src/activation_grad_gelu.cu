#include "activation_grad.cuh"

namespace ai::kernels {

GradientKernel gelu_gradient_kernel(ActKind act, const GradientForm& form) noexcept {
  switch (act) {
    case ActKind::GELU: return select<ActKind::GELU>(form);
    case ActKind::GELUTanh: return select<ActKind::GELUTanh>(form);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
