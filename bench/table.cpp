#include "table.hpp"

#include <algorithm>
#include <cstdio>

#include "software.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr double kMostRatio = 1.05;
constexpr int kRounds = 31;

void print_software() {
  const Software found = software();
  std::printf("%s, driver for CUDA %d.%d, runtime %s, cuBLASLt %s, driver %s\n", found.gpu.c_str(),
              found.driver_cuda / 1000, found.driver_cuda % 1000 / 10, found.cuda.c_str(),
              found.cublaslt.empty() ? "absent" : found.cublaslt.c_str(),
              found.driver.empty() ? "of unknown version" : found.driver.c_str());
}

std::string title(const Row& row) {
  return row.workload + ", batch " + std::to_string(row.batch) + ", " + to_string(row.mode);
}

std::string why_not(const std::string& name, const Prepared& prepared) {
  return name + (prepared.absent ? " is absent: " : " failed: ") + prepared.error;
}

// Of ours alone.
void print_choices(const Contestant& contestant) {
  if (const auto* ours = dynamic_cast<const Ours*>(&contestant)) {
    std::printf("%s", ours->explain().c_str());
  }
}

}  // namespace

std::vector<Row> select(const std::vector<Workload>& suite, const Selection& selection) {
  for (const std::string& name : selection.workloads) {
    const auto has_name = [&](const Workload& workload) { return workload.name == name; };
    if (std::none_of(suite.begin(), suite.end(), has_name)) {
      throw Failed("there is no workload '" + name + "'; --list lists them");
    }
  }
  std::vector<Row> rows = rows_of(suite);
  const auto is_unwanted = [&](const Row& row) {
    const auto& names = selection.workloads;
    return (!names.empty() && std::find(names.begin(), names.end(), row.workload) == names.end()) ||
           (selection.batch && row.batch != *selection.batch) ||
           (selection.mode && row.mode != *selection.mode);
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(), is_unwanted), rows.end());
  if (rows.empty()) throw Failed("no workload has that batch; --list lists them");
  return rows;
}

bool print_rows(Session& session, const std::vector<Row>& rows, bool explain) {
  print_software();
  bool good = true;
  for (const Row& row : rows) {
    std::printf("\n%s\n%-14s %9s %9s %9s %9s %9s %6s %10s %7s\n", title(row).c_str(), "",
                "device us", "slope us", "host p50", "host p99", "launch us", "nodes", "workspace",
                "error");
    session.release();
    for (const std::string& name : contestant_names()) {
      const Prepared prepared = session.prepare(row, name, kBudgetSeconds);
      good = good && (prepared.ok || prepared.absent);
      if (!prepared.ok) {
        std::printf("%s\n", why_not(name, prepared).c_str());
        continue;
      }
      session.warm(0.2);
      const auto take = [&](What what) { return session.measure(name, what, 0.1); };
      const auto host = take(What::Host);
      std::printf("%-14s %9.2f %9.2f %9.2f %9.2f %9.2f %6d %10zu %7.3f  %s\n", name.c_str(),
                  quantile(take(What::Device)), quantile(take(What::Slope)), quantile(host),
                  quantile(host, 0.99), quantile(take(What::Launch)), prepared.nodes,
                  prepared.workspace_bytes, prepared.error_ratio, prepared.variant.c_str());
      if (prepared.starts) {
        std::printf(
            "%-14s plan + capture %.1f ms cold, %.1f ms with the tuning file (%zu candidates "
            "timed, %zu heuristic queries)\n",
            "", prepared.starts->cold_ms, prepared.starts->cached_ms,
            prepared.starts->candidates_timed, prepared.starts->heuristic_queries);
      }
      if (explain) print_choices(session.at(name));
      std::fflush(stdout);
    }
  }
  return good;
}

bool print_comparison(Session& session, const std::vector<Row>& rows, bool explain) {
  print_software();
  std::printf(
      "workload      batch  mode                 ours us    fast us    same us   ours/fast   "
      "ours/same   error\n");
  int failed = 0;
  int absent = 0;
  int slow = 0;
  for (const Row& row : rows) {
    session.release();
    std::vector<std::string> names;
    std::vector<std::function<void(cudaStream_t)>> launches;
    double error_ratio = 0;
    for (const std::string& name : contestant_names()) {
      const Prepared prepared = session.prepare(row, name, kBudgetSeconds);
      error_ratio = std::max(error_ratio, prepared.error_ratio);
      if (!prepared.ok) {
        std::printf("%s: %s\n", title(row).c_str(), why_not(name, prepared).c_str());
        ++(prepared.absent ? absent : failed);
        continue;
      }
      names.push_back(name);
      launches.push_back(
          [&contestant = session.at(name)](cudaStream_t on) { contestant.launch(on); });
    }
    if (launches.size() != contestant_names().size()) continue;
    session.warm(0.3);
    const double roughly = quantile(session.measure("ours", What::Device, 0.01));
    const int count = static_cast<int>(std::clamp(2000 / roughly, 2.0, 200.0));
    const auto samples = interleaved(session.stream(), launches, kRounds, count);
    const double ours = quantile(samples[0]);
    const double to_fast = ours / quantile(samples[1]);
    const double to_same = ours / quantile(samples[2]);
    const bool within =
        to_same <= kMostRatio && (row.mode != Mode::Forward || to_fast <= kMostRatio);
    if (!within) ++slow;
    std::printf("%-12s %6d  %-16s %11.2f %10.2f %10.2f %11.3f %11.3f %7.3f%s\n",
                row.workload.c_str(), row.batch, to_string(row.mode), ours, quantile(samples[1]),
                quantile(samples[2]), to_fast, to_same, error_ratio, within ? "" : "  TOO SLOW");
    if (explain) print_choices(session.at("ours"));
    std::fflush(stdout);
  }
  std::printf(
      "of %zu rows %d have a ratio above %.2f; %d results are wrong or failed, %d are absent\n",
      rows.size(), slow, kMostRatio, failed, absent);
  return failed == 0 && absent == 0 && slow == 0;
}

}  // namespace bench
