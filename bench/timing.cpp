#include "timing.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "errors.hpp"

namespace bench {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Failed(std::string(what) + ": " + cudaGetErrorName(error) + ", " +
               cudaGetErrorString(error));
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void warm_up(cudaStream_t stream, const std::function<void(cudaStream_t)>& launch, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    for (int i = 0; i < 100; ++i) launch(stream);
    check(cudaStreamSynchronize(stream), "warm-up");
  }
}

double back_to_back(cudaStream_t stream, const std::function<void(cudaStream_t)>& launch,
                    int count) {
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  check(cudaEventRecord(start, stream), "cudaEventRecord");
  for (int i = 0; i < count; ++i) launch(stream);
  check(cudaEventRecord(stop, stream), "cudaEventRecord");
  check(cudaEventSynchronize(stop), "cudaEventSynchronize");
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
  check(cudaEventDestroy(start), "cudaEventDestroy");
  check(cudaEventDestroy(stop), "cudaEventDestroy");
  return static_cast<double>(milliseconds) * 1e3 / count;
}

std::vector<std::vector<double>> interleaved(
    cudaStream_t stream, const std::vector<std::function<void(cudaStream_t)>>& launches, int rounds,
    int count) {
  std::vector<std::vector<double>> samples(launches.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      for (int j = 0; j < 10; ++j) launches[i](stream);
      samples[i].push_back(back_to_back(stream, launches[i], count));
    }
  }
  return samples;
}

}  // namespace bench
