#include "peers/step_search.hpp"

#include <cstdio>
#include <limits>
#include <set>
#include <string>

#include "errors.hpp"
#include "peers/lt_tuning.hpp"
#include "peers/recorded_graph.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr double kGain = 0.99;
constexpr double kWarmSeconds = 0.1;

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
    try_runner_ups();
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
      if (differs) consider(choice, name + " everywhere");
    }
  }

  void try_branches() {
    if (!row_.has_backward() || row_.depth() < 2) return;
    const int now = best_.branches;
    for (int branches = 0; branches <= PeerStep::kMaxBranches; ++branches) {
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

  // The quickest alone need not be the quickest among the others.
  void try_runner_ups() {
    for (std::size_t l = 0; l < best_.options.size(); ++l) {
      for (PeerOps LayerOption::*part :
           {&LayerOption::forward, &LayerOption::gradient, &LayerOption::weights}) {
        LayerOption option = step_.chosen(best_, static_cast<int>(l));
        for (PeerOp& op : option.*part) {
          if (!op.runner_up) continue;
          op = PeerOp(*op.runner_up);
          try_option(l, option, op.label);
          break;
        }
      }
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
