#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "peers/device_memory.hpp"
#include "peers/lt_gemm.hpp"

namespace bench {

/// What an algorithm must show before it may be used. It is asked about the quickest first, once in
/// a process for each problem. `run` runs the algorithm to its end.
struct Demand {
  std::string name;
  std::function<bool(const LtGemm& gemm, const std::function<void()>& run)> holds;
};

/// Finds the quickest algorithm of a problem, and remembers it for the process: problems of the
/// same key are taken to be the same, whatever their addresses.
class LtTuner {
 public:
  /// The stream to time on, borrowed.
  explicit LtTuner(cudaStream_t stream);

  /// The quickest of the heuristic's answers, timed in graph replays over the problem's own
  /// operands (which should hold plausible values), of those that meet `demand`; and the next three
  /// that do, as far as they take at most 1.1 times as long. Empty where cuBLASLt offers none.
  [[nodiscard]] std::vector<LtAlgorithm> quickest(const LtGemm& gemm,
                                                  const Demand* demand = nullptr);

 private:
  struct Timed {
    LtAlgorithm algorithm;
    double us = 0.0;
  };
  [[nodiscard]] std::vector<Timed> rank(const LtGemm& gemm);
  void refine(const LtGemm& gemm, std::vector<Timed>& timed);
  void run(const LtGemm& gemm, const LtAlgorithm& algorithm);

  cudaStream_t stream_;
  DeviceBuffer workspace_;
  bool warm_ = false;

  static std::map<std::string, std::vector<Timed>> ranked_;          // quickest first
  static std::map<std::string, std::vector<LtAlgorithm>> quickest_;  // by problem and demand
};

/// A line on stderr about what was tried and chosen, if GRAPH_EXECUTOR_BENCH_LOG is set.
void log_choice(const std::string& line);

}  // namespace bench
