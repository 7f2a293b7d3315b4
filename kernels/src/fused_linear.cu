#include "fused.cuh"

namespace ai::kernels {

FusedKernel linear_fused_kernel(ActKind act, const FusedForm& form) noexcept {
  switch (act) {
    case ActKind::None: return fused_kernel_of<ActKind::None>(form);
    case ActKind::ReLU: return fused_kernel_of<ActKind::ReLU>(form);
    case ActKind::LeakyReLU: return fused_kernel_of<ActKind::LeakyReLU>(form);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
