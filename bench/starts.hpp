#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace bench {

/// How long planning and capturing a row takes, where the libraries are loaded and the context is
/// there.
struct Starts {
  double cold_ms = 0;    ///< without a tuning file
  double cached_ms = 0;  ///< with the one that the cold start made; the slowest of kSecondStarts
  /// Of those second starts, the most of each.
  std::size_t candidates_timed = 0;
  std::size_t heuristic_queries = 0;
};

inline constexpr int kSecondStarts = 5;

/// What a start says of itself.
struct StartReport {
  std::size_t candidates_timed = 0;
  std::size_t heuristic_queries = 0;
};

/// What is started, and the clock.
struct Startable {
  /// Lets go of all that the start before has made. Not timed.
  std::function<void()> release;
  /// Plans, tunes and captures with this tuning file, which may not be there.
  std::function<StartReport(const std::string& file)> start;
  std::function<double()> now_ms;
};

/// Starts once with `folder`/tuning.json, and kSecondStarts times with copies of it, since a
/// process remembers what it has read under a name. Nothing that a start has made is alive when
/// another begins: what two executables share, such as a loaded kernel, would be there for nothing.
[[nodiscard]] Starts time_starts(const Startable& startable, const std::filesystem::path& folder);

}  // namespace bench
