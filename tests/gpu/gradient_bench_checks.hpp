#pragma once

#include <cuda_runtime.h>

namespace gradient_bench {

/// Every candidate against f64 on the host: odd shapes, all activations and kinds of bias, pitches,
/// offsets, strides, modes, NaN and infinities. Failures are printed and counted. `quick`: one
/// shape in eight, nothing large.
void check_all(bool quick, int sm_count, cudaStream_t stream);

/// How many results were compared, by candidate.
void print_checked();

}  // namespace gradient_bench
