#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"
#include "contestant.hpp"
#include "long_graph.hpp"
#include "measure.hpp"
#include "network.hpp"
#include "ours.hpp"

namespace bench {

/// "ours", "cublaslt_fast", "cublaslt_same".
[[nodiscard]] const std::vector<std::string>& contestant_names();

/// What preparing and checking a contestant for a row came to.
struct Prepared {
  bool ok = false;
  bool absent = false;
  std::string error;  ///< why not ok
  int nodes = 0;
  std::size_t workspace_bytes = 0;
  std::string variant;
  std::optional<Starts> starts;  ///< of ours alone
  double error_ratio = 0;        ///< infinite where a result is not finite
  std::int64_t checked = 0;
};

/// The contestants of one row at a time, on the current device.
class Session {
 public:
  /// Throws Absent where there is no GPU.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Makes a contestant, lets it do one step and checks every result. Only one whose results are
  /// right is kept; those of an earlier row go. Failed for a name that is none; everything else is
  /// said in the result.
  [[nodiscard]] Prepared prepare(const Row& row, const std::string& name, double budget_s);
  void release() {
    contestants_.clear();
    network_.reset();
  }

  /// One that was prepared; throws Failed otherwise.
  [[nodiscard]] Contestant& at(const std::string& name) { return *ready(name).contestant; }
  /// Samples as bench::measure has them, of one that was prepared. A slope's first call checks the
  /// results of the long graph; throws Failed where they are wrong.
  [[nodiscard]] std::vector<double> measure(const std::string& name, What what, double seconds);
  /// Keeps the GPU busy, with what is prepared if anything is.
  void warm(double seconds);
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

 private:
  struct Ready {
    std::unique_ptr<Contestant> contestant;
    LongGraphCheck long_graph;
  };
  [[nodiscard]] Ready& ready(const std::string& name);
  /// What one launch makes of a network whose results are poisoned.
  [[nodiscard]] Checked check_launch(Contestant& contestant,
                                     void (Contestant::*launch)(cudaStream_t));

  cudaStream_t stream_ = nullptr;
  std::optional<Network> network_;  // of the row at hand
  std::map<std::string, Ready> contestants_;
  std::optional<Network> idle_;  // what there is to do where nothing is prepared
};

}  // namespace bench
