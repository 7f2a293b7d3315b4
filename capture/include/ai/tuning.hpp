#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ai/status.hpp"

namespace ai {

/// How candidates are chosen.
enum class Tuning {
  Off,      ///< table order: the first candidate that applies and passes its check; no tuning file
  Measure,  ///< what the tuning file knows is taken; what it does not know is measured and stored
  Remeasure,  ///< measured, whatever the file knows, and stored instead of that
};

/// How far the measuring of one capture has come.
struct TuningProgress {
  std::string_view task;       ///< at hand, as explain() calls it; valid during the call only
  std::size_t tasks = 0;       ///< that are to be measured, runs of layers as a whole included
  std::size_t tasks_done = 0;  ///< of them; one that was cut short may come again at the end
  std::size_t candidates = 0;  ///< of the task at hand that apply
  std::size_t candidates_done = 0;
  double elapsed_s = 0;  ///< since measuring began
  double budget_s = 0;   ///< CaptureOptions::tuning_budget_s
};

/// What choosing candidates for one executable took.
struct TuningReport {
  std::size_t tasks = 0;              ///< independent choices with more than one way open
  std::size_t recalled = 0;           ///< of them: taken from the tuning file
  std::size_t measured = 0;           ///< of them: measured now (the rest repeat another task)
  std::size_t candidates_timed = 0;   ///< in all of them
  std::size_t heuristic_queries = 0;  ///< questions to cuBLASLt's heuristic
  std::size_t kernels_compiled = 0;   ///< for runs of layers as a whole; the rest came from files
  double compile_s = 0;               ///< what each took, added up: several are compiled at once
  std::size_t orders_timed = 0;       ///< ways to order all steps, tried on the program as a whole
  double seconds = 0;                 ///< wall time of choosing
};

/// Sees each candidate before it is tried.
using TuningProgressHandler = std::function<void(const TuningProgress&)>;
/// Sees what is wrong with a tuning file (damaged, foreign, of another version, not readable, not
/// writable), with an entry of it, or with the folder of compiled kernels beside it. Nothing fails
/// for it: what is wrong is ignored.
using TuningWarningHandler = std::function<void(const Status&)>;

/// The tuning file of every capture that names none, and of the direct path: what was set here,
/// else the environment variable GRAPH_EXECUTOR_TUNING_CACHE, else graph_executor/tuning.json in
/// XDG_CACHE_HOME or in ~/.cache. Empty: there is none (the variable is set to nothing or to "off",
/// or there is no home). What stands in it is handed to cuBLASLt, which does not survive every set
/// of bytes: keep it where only those may write whose programs you would run. (Accidental damage is
/// found by checksums.) Kernels that were compiled for networks lie in the folder `kernels` beside
/// it; that is used only where nobody else may write to it.
[[nodiscard]] std::string tuning_cache_path() noexcept;

/// Moves it for this process; "": no file; nullopt: back to the environment. Plans that the direct
/// path keeps stay (ai::gemm::clear_plan_cache). Thread-safe. Invalid for a NUL byte, OutOfMemory.
Status set_tuning_cache_path(std::optional<std::string_view> path) noexcept;

}  // namespace ai
