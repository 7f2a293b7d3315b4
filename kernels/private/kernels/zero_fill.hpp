#pragma once

#include <memory>
#include <string>

#include "ai/step.hpp"
#include "kernels/machine.hpp"
#include "kernels/views.hpp"

namespace ai::kernels {

/// Writes zeros to the elements of `view` and leaves the padding between its rows alone.
/// Precondition: it has elements.
[[nodiscard]] Result<std::shared_ptr<Step>> make_zero_fill_step(Machine& machine,
                                                                const MatrixView& view,
                                                                const std::string& name);

}  // namespace ai::kernels
