#pragma once

#include <string>

#include "ai/status.hpp"
#include "cuda/api.hpp"
#include "cuda/nvrtc_compile.hpp"
#include "kernels/chain_form.hpp"

namespace ai::kernels::chain {

/// A device as the chain kernel is compiled for it.
struct TargetDevice {
  Machine machine = {};
  int compute_capability = 0;  ///< 90 for 9.0
  bool arch_specific = false;  ///< cuda::CompileRequest::arch_specific

  /// Why no chain kernel runs there; empty where they do. May throw std::bad_alloc.
  [[nodiscard]] std::string reason_against() const;
};

/// Asks the runtime.
[[nodiscard]] Result<TargetDevice> target_device(const cuda::Api& api, int device) noexcept;

/// The kernel for one network and form. Equal networks have equal requests. May throw
/// std::bad_alloc.
[[nodiscard]] cuda::CompileRequest request_for(const Network& network, const Form& form,
                                               const TargetDevice& device);

}  // namespace ai::kernels::chain
