#pragma once

#include "peers/lt_tuning.hpp"

namespace bench {

/// Of a GEMM with bias and ReLU: NaN in L, R or the bias reaches every result it should, and an
/// infinite bias gives what ReLU makes of it (0 of -Inf). Elements of the operands are changed
/// meanwhile and restored.
[[nodiscard]] const Demand& keeps_special_values();

/// Of a weight gradient with BGRADA: the bias gradient it writes is the sum of R over k.
[[nodiscard]] const Demand& sums_columns();

}  // namespace bench
