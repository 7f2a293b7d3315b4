#include "activation_grad.cuh"

namespace ai::kernels {

GradientKernel linear_gradient_kernel(ActKind act, const GradientForm& form) noexcept {
  switch (act) {
    case ActKind::None: return select<ActKind::None>(form);
    case ActKind::ReLU: return select<ActKind::ReLU>(form);
    case ActKind::LeakyReLU: return select<ActKind::LeakyReLU>(form);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
