#include "fused.cuh"

namespace ai::kernels {

FusedKernel gelu_fused_kernel(ActKind act, const FusedForm& form) noexcept {
  switch (act) {
    case ActKind::GELU: return fused_kernel_of<ActKind::GELU>(form);
    case ActKind::GELUTanh: return fused_kernel_of<ActKind::GELUTanh>(form);
    default: return nullptr;
  }
}

}  // namespace ai::kernels
