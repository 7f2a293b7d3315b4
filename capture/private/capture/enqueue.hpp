#pragma once

#include "ai/memory.hpp"
#include "ai/step.hpp"

namespace ai::detail {

/// step.prepare and step.enqueue, with an exception turned into a Status. A failure names the step.
/// May throw std::bad_alloc.
[[nodiscard]] Status prepare(Step& step);
[[nodiscard]] Status enqueue(Step& step, const AddressMap& addresses, Stream stream);

/// `status` with the step's name before its message.
[[nodiscard]] Status in_step(const Step& step, const Status& status);

}  // namespace ai::detail
