#pragma once

#include <optional>
#include <string>
#include <vector>

#include "session.hpp"
#include "suite.hpp"

namespace bench {

/// Which rows of the suite are asked for; empty and nullopt: all.
struct Selection {
  std::vector<std::string> workloads;
  std::optional<int> batch;
  std::optional<Mode> mode;
};
/// In the suite's order. Throws Failed where a workload or a batch is not in the suite.
[[nodiscard]] std::vector<Row> select(const std::vector<Workload>& suite,
                                      const Selection& selection);

/// Everything that can be measured of each contestant, a line each. Returns whether all results
/// were right.
bool print_rows(Session& session, const std::vector<Row>& rows, bool explain);

/// Ours against both peers, interleaved: device microseconds, back to back. Returns whether every
/// contestant was there and right and no ratio above 1.05: to `same` in every mode, to `fast` in
/// Mode::Forward.
bool print_comparison(Session& session, const std::vector<Row>& rows, bool explain);

}  // namespace bench
