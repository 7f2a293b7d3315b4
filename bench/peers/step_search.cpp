#include "peers/step_search.hpp"

#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "peers/lt_tuning.hpp"
#include "peers/recorded_graph.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr double kGain = 0.99;
constexpr double kWarmSeconds = 0.1;

using Part = PeerOps LayerOption::*;
constexpr std::array kParts{&LayerOption::forward, &LayerOption::gradient, &LayerOption::weights};
constexpr std::array kPartNames{"forward", "gradient", "weights"};

class Search {
 public:
  Search(PeerStep& step, const Row& row) : step_(step), row_(row) {}

  StepChoice run() {
    best_.options.assign(step_.options().size(), 0);
    best_.branches = row_.has_backward() && row_.depth() > 1 ? 1 : 0;
    warm_up(RecordedGraph(step_.stream(), [&] { step_.enqueue(best_); }), step_.stream(),
            kWarmSeconds);
    best_us_ = time(best_);
    log("the usual way");
    try_option_everywhere();
    try_branches();
    try_option_of_each_layer();
    try_branches();
    try_runner_ups_everywhere();
    try_runner_ups_one_by_one();
    return best_;
  }

 private:
  // Infinite where cuBLASLt refuses.
  double time(const StepChoice& choice) const {
    try {
      const RecordedGraph graph(step_.stream(), [&] { step_.enqueue(choice); });
      const double rough = rough_time_of(graph, step_.stream());
      return time_of(graph, step_.stream(), rough, 500.0, 7);
    } catch (const Failed& failure) {
      if (cudaStreamSynchronize(step_.stream()) != cudaSuccess) throw;  // the context is lost
      log_choice(failure.what());
      return std::numeric_limits<double>::infinity();
    }
  }

  // Whether it is taken.
  bool consider(const StepChoice& choice, const std::string& what) {
    const double us = time(choice);
    if (us > kGain * best_us_) return false;
    best_ = choice;
    best_us_ = us;
    log(what);
    return true;
  }

  void log(const std::string& what) const {
    char text[32];
    (void)std::snprintf(text, sizeof text, "%.2f us: ", best_us_);
    log_choice(row_.workload + " " + std::to_string(row_.batch) + " " + text + what);
  }

  // With each number of branches: what is quickest beside another product need not be so alone.
  void try_option_everywhere() {
    std::set<std::string> names;
    for (const auto& options : step_.options()) {
      for (const LayerOption& option : options) names.insert(option.name);
    }
    for (const std::string& name : names) {
      StepChoice choice = best_;
      bool differs = false;
      for (std::size_t l = 0; l < choice.options.size(); ++l) {
        const std::vector<LayerOption>& options = step_.options()[l];
        for (std::size_t i = 0; i < options.size(); ++i) {
          if (options[i].name != name || choice.options[l] == static_cast<int>(i)) continue;
          choice.options[l] = static_cast<int>(i);
          differs = true;
        }
      }
      if (!differs) continue;
      const std::string what = name + " everywhere";
      for (const int branches : branch_counts()) {
        choice.branches = branches;
        consider(choice, what + ", " + std::to_string(branches) + " more branches");
      }
    }
  }

  // Without two weight gradients there is nothing to go elsewhere.
  std::vector<int> branch_counts() const {
    std::vector<int> counts{0};
    for (int more = 1; row_.has_backward() && row_.depth() > 1 && more <= PeerStep::kMaxBranches;
         ++more) {
      counts.push_back(more);
    }
    return counts;
  }

  void try_branches() {
    const int now = best_.branches;
    for (const int branches : branch_counts()) {
      if (branches == now) continue;
      StepChoice choice = best_;
      choice.branches = branches;
      consider(choice, std::to_string(branches) + " more branches");
    }
  }

  void try_option_of_each_layer() {
    for (std::size_t l = 0; l < best_.options.size(); ++l) {
      const std::vector<LayerOption>& options = step_.options()[l];
      const int now = best_.options[l];
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (static_cast<int>(i) == now) continue;
        StepChoice choice = best_;
        choice.options[l] = static_cast<int>(i);
        consider(choice, options[i].name + " in layer " + std::to_string(l));
      }
    }
  }

  // The quickest alone need not be the quickest among the others. What a deep network gains in each
  // layer may be too little to be seen.
  void try_runner_ups_everywhere() {
    for (std::size_t part = 0; part < kParts.size(); ++part) {
      const StepChoice usual = best_;
      for (int place = 1; try_runner_ups(usual, part, place); ++place) {
      }
    }
  }

  // Whether there are any: of each layer the one in this place behind the quickest.
  bool try_runner_ups(const StepChoice& usual, std::size_t part, int place) {
    StepChoice choice = usual;
    std::vector<std::size_t> changed;
    for (std::size_t l = 0; l < choice.options.size(); ++l) {
      LayerOption option = step_.chosen(usual, static_cast<int>(l));
      bool differs = false;
      for (PeerOp& op : option.*kParts[part]) {
        std::shared_ptr<const PeerOp> other = op.runner_up;
        for (int i = 1; i < place && other; ++i) other = other->runner_up;
        if (!other) continue;
        op = *other;
        differs = true;
      }
      if (!differs) continue;
      choice.options[l] = step_.add_option(l, std::move(option));
      changed.push_back(l);
    }
    if (changed.empty()) return false;
    const std::string what = "runner-up " + std::to_string(place) + " of " + kPartNames[part];
    if (!consider(choice, what + " everywhere")) {
      for (const std::size_t l : changed) step_.drop_option(l);
    }
    return true;
  }

  void try_runner_ups_one_by_one() {
    for (std::size_t l = 0; l < best_.options.size(); ++l) {
      for (const Part part : kParts) {
        const std::size_t count = (step_.chosen(best_, static_cast<int>(l)).*part).size();
        for (std::size_t i = 0; i < count; ++i) try_runner_ups_of(l, part, i);
      }
    }
  }

  void try_runner_ups_of(std::size_t l, Part part, std::size_t op) {
    const auto chosen = [&]() -> const LayerOption& {
      return step_.chosen(best_, static_cast<int>(l));
    };
    std::shared_ptr<const PeerOp> other = (chosen().*part)[op].runner_up;
    for (; other; other = other->runner_up) {
      LayerOption option = chosen();
      (option.*part)[op] = *other;
      try_option(l, option, other->label);
    }
  }

  void try_option(std::size_t l, const LayerOption& option, const std::string& what) {
    StepChoice choice = best_;
    choice.options[l] = step_.add_option(l, option);
    if (!consider(choice, what + " in layer " + std::to_string(l))) step_.drop_option(l);
  }

  PeerStep& step_;
  const Row& row_;
  StepChoice best_;
  double best_us_ = 0.0;
};

}  // namespace

StepChoice search(PeerStep& step, const Row& row) {
  return Search(step, row).run();
}

}  // namespace bench
