#pragma once

#include <memory>

#include "ai/backend.hpp"
#include "kernels/machine.hpp"

namespace ai::kernels {

/// make_cuda_backend over any runtime and cuBLASLt, so that lowering can be tested without a GPU.
[[nodiscard]] std::unique_ptr<Backend> make_backend(const cuda::Api& api, Machine::LtLoader load_lt,
                                                    int device);

}  // namespace ai::kernels
