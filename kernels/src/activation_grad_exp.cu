#include "activation_grad.cuh"

namespace ai::kernels {

GradientKernel exp_gradient_kernel(ActKind act, bool along_rows, bool vectors) noexcept {
  switch (act) {
    case ActKind::ELU: return select<ActKind::ELU>(along_rows, vectors);
    case ActKind::SiLU: return select<ActKind::SiLU>(along_rows, vectors);
    case ActKind::Sigmoid: return select<ActKind::Sigmoid>(along_rows, vectors);
    case ActKind::Tanh: return select<ActKind::Tanh>(along_rows, vectors);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
