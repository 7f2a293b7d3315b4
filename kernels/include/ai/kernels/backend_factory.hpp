#pragma once

#include <memory>

#include "ai/backend.hpp"

namespace ai::kernels {

/// The CUDA backend for `device`. Makes no CUDA call until its first use. Never null.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace ai::kernels
