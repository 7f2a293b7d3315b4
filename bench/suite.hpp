#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "row.hpp"

namespace bench {

/// One entry of suite.json: a network, and the batches that it is measured with.
struct Workload {
  std::string name;
  std::vector<int> layers;
  ai::ActKind activation = ai::ActKind::None;
  std::vector<int> batches;
};

/// "forward", "forward_backward", "train_step".
[[nodiscard]] const char* to_string(Mode mode);
/// Throws Failed where there is no such mode.
[[nodiscard]] Mode parse_mode(std::string_view name);

/// {"workloads": [{"name": "jet", "layers": [16, 64, 5], "activation": "ReLU", "batches": [1]}]}.
/// Throws Failed, which names the workload, the field, what was given and what was wanted.
[[nodiscard]] std::vector<Workload> parse_suite(std::string_view text);
/// The suite.json that this was built with.
[[nodiscard]] std::vector<Workload> built_in_suite();

/// Every workload with each of its batches in every mode, in that order.
[[nodiscard]] std::vector<Row> rows_of(const std::vector<Workload>& suite);

/// {"workload": "jet", "layers": [16, 64, 5], "activation": "ReLU", "batch": 1, "mode": "forward"}.
/// Throws Failed as parse_suite does.
[[nodiscard]] Row parse_row(const nlohmann::json& row);

}  // namespace bench
