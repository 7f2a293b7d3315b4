#include "fused.cuh"

namespace ai::kernels {

FusedKernel exp_fused_kernel(ActKind act, const FusedForm& form) noexcept {
  switch (act) {
    case ActKind::ELU: return fused_kernel_of<ActKind::ELU>(form);
    case ActKind::SiLU: return fused_kernel_of<ActKind::SiLU>(form);
    case ActKind::Sigmoid: return fused_kernel_of<ActKind::Sigmoid>(form);
    case ActKind::Tanh: return fused_kernel_of<ActKind::Tanh>(form);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
