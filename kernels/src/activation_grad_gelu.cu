#include "activation_grad.cuh"

namespace ai::kernels {

GradientKernel gelu_gradient_kernel(ActKind act, bool along_rows, bool vectors) noexcept {
  switch (act) {
    case ActKind::GELU: return select<ActKind::GELU>(along_rows, vectors);
    case ActKind::GELUTanh: return select<ActKind::GELUTanh>(along_rows, vectors);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
