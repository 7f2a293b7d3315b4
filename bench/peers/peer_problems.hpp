#pragma once

#include "network.hpp"
#include "peers/lt_gemm.hpp"

namespace bench {

/// The gradient of layer l's Z, which of the last layer is that of its Y.
[[nodiscard]] const Matrix& gz_of(const Network& network, int l);

/// The GEMMs of layer l, with the epilogue's operands but its aux, and `bias` of a BGRAD, left to
/// the caller.
[[nodiscard]] GemmProblem product(const Network& network, int l, cublasLtEpilogue_t epilogue,
                                  const Matrix& to);
/// From the layer above.
[[nodiscard]] GemmProblem data_gradient(const Network& network, int l, cublasLtEpilogue_t epilogue,
                                        const Matrix& to);
[[nodiscard]] GemmProblem weight_gradient(const Network& network, int l,
                                          cublasLtEpilogue_t epilogue);

}  // namespace bench
