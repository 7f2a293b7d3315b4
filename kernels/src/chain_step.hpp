#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ai/gemm.hpp"
#include "ai/step.hpp"
#include "cuda/kernel_image.hpp"
#include "kernels/chain_form.hpp"

namespace ai::kernels::chain {

/// Layers that a step can have: the kernels of more take long to compile.
inline constexpr std::size_t kMostLayers = 40;

/// A whole run in one launch of the kernel in `image`, compiled for `network` and `form`.
/// `network` is network_of(plans, ...). Loads the image when it is prepared. Named "chain of 4
/// layers". Precondition: no more than kMostLayers. May throw std::bad_alloc.
[[nodiscard]] std::shared_ptr<Step> make_chain_step(const cuda::Api& api,
                                                    std::span<const GemmPlan> plans,
                                                    const Network& network, const Form& form,
                                                    std::shared_ptr<cuda::KernelImage> image);

}  // namespace ai::kernels::chain
