#pragma once

#include <string>
#include <string_view>

#include "ai/backend.hpp"
#include "capture/tuning_cache.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// What measured choices on `device` hold for. Asks the backend for its libraries. May throw
/// std::bad_alloc, as may the next.
[[nodiscard]] Result<TuningMachine> tuning_machine(const cuda::Api& api, int device,
                                                   Backend& backend);

/// The release in what a kernel driver says of itself (/proc/driver/nvidia/version), e.g.
/// "580.159.04"; empty where it says none.
[[nodiscard]] std::string driver_release(std::string_view text);

}  // namespace ai::detail
