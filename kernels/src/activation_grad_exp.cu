#include "activation_grad.cuh"

namespace ai::kernels {

GradientKernel exp_gradient_kernel(ActKind act, const GradientForm& form) noexcept {
  switch (act) {
    case ActKind::ELU: return select<ActKind::ELU>(form);
    case ActKind::SiLU: return select<ActKind::SiLU>(form);
    case ActKind::Sigmoid: return select<ActKind::Sigmoid>(form);
    case ActKind::Tanh: return select<ActKind::Tanh>(form);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
