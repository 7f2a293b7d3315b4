#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/gemm.hpp"
#include "kernels/machine.hpp"
#include "kernels/product.hpp"

namespace ai::kernels {

/// The one task of a forward plan. `recall` numbers it `first`. The machine's device is current.
/// May throw std::bad_alloc.
[[nodiscard]] Result<std::vector<Task>> lower_forward(Machine& machine, const GemmPlan& plan,
                                                      const Recall& recall, std::size_t first);

/// The tasks of a backward plan, those that gA and gB wait for first. `recall` numbers them
/// from `first` on. As above.
[[nodiscard]] Result<std::vector<Task>> lower_backward(Machine& machine, const GemmPlan& plan,
                                                       const Recall& recall, std::size_t first);

/// "[64,256]".
[[nodiscard]] std::string shape_text(const MatrixView& view);

}  // namespace ai::kernels
