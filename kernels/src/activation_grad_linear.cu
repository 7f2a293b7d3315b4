#include "activation_grad.cuh"

namespace ai::kernels {

GradientKernel linear_gradient_kernel(ActKind act, bool along_rows, bool vectors) noexcept {
  switch (act) {
    case ActKind::None: return select<ActKind::None>(along_rows, vectors);
    case ActKind::ReLU: return select<ActKind::ReLU>(along_rows, vectors);
    case ActKind::LeakyReLU: return select<ActKind::LeakyReLU>(along_rows, vectors);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
