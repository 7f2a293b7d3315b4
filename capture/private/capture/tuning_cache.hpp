#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ai/backend.hpp"
#include "ai/status.hpp"
#include "capture/tuning_file.hpp"

namespace ai::detail {

/// A choice that was measured, as it is kept.
struct StoredChoice {
  RecalledCandidate candidate = {};
  double time_us = -1;         ///< of one execution inside a graph; negative: unknown
  std::string runner_up = {};  ///< its name; empty where there was none
  double runner_up_us = -1;
  int applicable = 0;  ///< how many candidates applied
  int timed = 0;       ///< how many of them were timed
  /// What there was for measuring it, where that ran out before all were looked at; else 0. Of a
  /// choice a share of the program's budget, of an order that budget.
  double budget_s = 0;
  bool operator==(const StoredChoice&) const = default;
};

/// What the best candidate depends on besides the problem.
struct TuningMachine {
  std::string gpu = {};  ///< "NVIDIA H200"
  int sm_count = 0;
  std::string driver = {};     ///< "580.159.04, CUDA 13.0"
  std::string cuda = {};       ///< the runtime's version, "13.0"
  std::string libraries = {};  ///< Backend::libraries(), "cuBLASLt 13.1.0, kernels 1"
  std::string library = {};    ///< this library's version
  auto operator<=>(const TuningMachine&) const = default;
};

/// Measured choices of any number of machines, kept in a JSON file. Thread-safe. Processes may
/// share a file: it is replaced as a whole, under a lock on <file>.lock (which stays), and what
/// others have put there meanwhile is kept.
///
/// A file that cannot be read is as good as none. One that is not a tuning file, or of a newer
/// format, is never written to; one of ours that is damaged or of an older format is replaced by
/// the next store. Single entries that are damaged are passed over, and gone after the next store.
class TuningCache {
 public:
  using Choices = std::map<std::string, StoredChoice, std::less<>>;  ///< by problem

  explicit TuningCache(std::string path) : path_(std::move(path)) {}
  TuningCache(const TuningCache&) = delete;
  TuningCache& operator=(const TuningCache&) = delete;

  /// The process's one cache for the file at `path`, which counts as absolute; null where it is
  /// empty. May throw std::bad_alloc, as may all below.
  [[nodiscard]] static std::shared_ptr<TuningCache> at(const std::string& path);

  /// Reads the file where it is not the one that was read last. Says what is wrong with it: once
  /// for each state of the file, so that Ok need not mean that it is well. `is_heard`: whether the
  /// caller passes that on; else it counts as not said. Invalid: what it holds; Unsupported: its
  /// version, or that it cannot be read.
  [[nodiscard]] Status refresh(bool is_heard = true);
  /// What is known of a problem; call refresh() first.
  [[nodiscard]] std::optional<StoredChoice> find(const TuningMachine& machine,
                                                 std::string_view problem) const;
  /// Adds entries, each instead of an earlier one for its problem, here and in the file. What could
  /// not be written is kept for this process all the same, and goes into the file with the next
  /// store. Waits for at most two seconds for others that write, be they threads or processes. Says
  /// why nothing was written (Unsupported) and, as refresh() does, what was wrong with the file
  /// before; a file that is not to be written to is such a wrong, said once.
  [[nodiscard]] Status store(const TuningMachine& machine, const Choices& choices,
                             bool is_heard = true);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  // All under mutex_.
  [[nodiscard]] bool up_to_date() const noexcept;
  /// Takes over a state of the file, with what is not in it yet.
  void adopt(const FileContents& file);
  /// What is wrong with that state, unless it has been said.
  [[nodiscard]] Status unsaid(bool is_heard);
  /// Puts what is unwritten into the file, if that is to be written to; with its lock. `said` gets
  /// what was wrong with it before.
  [[nodiscard]] Status write(const std::string& target, bool is_heard, Status& said);

  const std::string path_;
  std::timed_mutex storing_;                          // one store at a time; taken before mutex_
  std::chrono::steady_clock::time_point released_{};  // the file's lock; under storing_
  mutable std::mutex mutex_;
  std::optional<FileStamp> read_;  // the state that machines_ is of; nullopt: not read yet
  bool replaceable_ = true;        // that state
  Status problem_;                 // with that state
  bool is_said_ = false;           // that problem
  std::map<TuningMachine, Choices> machines_;
  std::map<TuningMachine, Choices> unwritten_;  // are in machines_ too
};

}  // namespace ai::detail
