#include "starts.hpp"

#include <algorithm>

namespace bench {

Starts time_starts(const Startable& startable, const std::filesystem::path& folder) {
  Starts starts;
  StartReport report;
  const auto time_of = [&](const std::filesystem::path& file) {
    startable.release();
    const double begin = startable.now_ms();
    report = startable.start(file);
    return startable.now_ms() - begin;
  };
  const std::filesystem::path file = folder / "tuning.json";
  starts.cold_ms = time_of(file);
  for (int i = 0; i < kSecondStarts; ++i) {
    const std::filesystem::path copy = folder / ("again-" + std::to_string(i) + ".json");
    if (std::filesystem::exists(file)) std::filesystem::copy_file(file, copy);
    starts.cached_ms = std::max(starts.cached_ms, time_of(copy));
    starts.candidates_timed = std::max(starts.candidates_timed, report.candidates_timed);
    starts.heuristic_queries = std::max(starts.heuristic_queries, report.heuristic_queries);
  }
  return starts;
}

}  // namespace bench
