#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ai/backend.hpp"
#include "ai/status.hpp"

namespace ai::detail {

/// A choice that was measured, as it is kept.
struct StoredChoice {
  RecalledCandidate candidate = {};
  double time_us = -1;         ///< of one execution inside a graph
  std::string runner_up = {};  ///< its name; empty where there was none
  double runner_up_us = -1;
  int applicable = 0;   ///< how many candidates applied
  int timed = 0;        ///< how many of them were timed
  double budget_s = 0;  ///< the program's, where it ran out before all were looked at; else 0
  bool operator==(const StoredChoice&) const = default;
};

/// What the best candidate depends on besides the problem.
struct TuningMachine {
  std::string gpu = {};  ///< "NVIDIA H200"
  int sm_count = 0;
  std::string driver = {};     ///< "580.159.04, CUDA 13.0"
  std::string cuda = {};       ///< the runtime's version, "13.0"
  std::string libraries = {};  ///< Backend::libraries(), "cuBLASLt 13.1.0"
  std::string library = {};    ///< this library's version
  auto operator<=>(const TuningMachine&) const = default;
};

/// Measured choices of any number of machines, kept in a JSON file. Thread-safe. Processes may
/// share a file: it is replaced as a whole, under a lock beside it, and what others have put there
/// meanwhile is kept.
///
/// A file that cannot be read is as good as none. One that is not a tuning file, or of a newer
/// format, is never written to; one of ours that is damaged or of an older format is replaced by
/// the next store.
class TuningCache {
 public:
  using Choices = std::map<std::string, StoredChoice>;  ///< by problem

  explicit TuningCache(std::string path) : path_(std::move(path)) {}
  TuningCache(const TuningCache&) = delete;
  TuningCache& operator=(const TuningCache&) = delete;

  /// The process's one cache for the file at `path`; null where that is empty. May throw
  /// std::bad_alloc, as may all below.
  [[nodiscard]] static std::shared_ptr<TuningCache> at(const std::string& path);

  /// Reads the file where it is not the one that was read last. Says what is wrong with it: once
  /// for each state of the file, so that Ok need not mean that it is well.
  [[nodiscard]] Status refresh();
  /// What is known of a problem; call refresh() first.
  [[nodiscard]] std::optional<StoredChoice> find(const TuningMachine& machine,
                                                 std::string_view problem) const;
  /// Adds entries, each instead of an earlier one for its problem, here and in the file. What could
  /// not be written is kept for this process all the same. Waits for at most two seconds for other
  /// processes that write.
  [[nodiscard]] Status store(const TuningMachine& machine, const Choices& choices);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  /// What tells one state of a file from another.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = -1;  ///< -1: there is no file
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };

  const std::string path_;
  mutable std::mutex mutex_;
  std::optional<Stamp> read_;  // nullopt: not read yet
  std::map<TuningMachine, Choices> machines_;
};

}  // namespace ai::detail
