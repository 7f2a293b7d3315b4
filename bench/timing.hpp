#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace bench {

/// The value at share `q` (0..1) of the sorted `values`; 0 if there are none.
[[nodiscard]] double quantile(std::vector<double> values, double q = 0.5);

/// Replays `launch` on `stream` for `seconds`, so that the GPU leaves its idle clock.
void warm_up(cudaStream_t stream, const std::function<void(cudaStream_t)>& launch, double seconds);

/// Device time of one launch in microseconds, `count` launches back to back between two events.
[[nodiscard]] double back_to_back(cudaStream_t stream,
                                  const std::function<void(cudaStream_t)>& launch, int count);

/// Times several things in turn, `rounds` times over, and returns the samples of each: what drifts
/// (clocks, temperature) drifts for all of them.
[[nodiscard]] std::vector<std::vector<double>> interleaved(
    cudaStream_t stream, const std::vector<std::function<void(cudaStream_t)>>& launches, int rounds,
    int count);

/// Throws Failed with `what` and the error if `error` is one.
void check(cudaError_t error, const char* what);

}  // namespace bench
