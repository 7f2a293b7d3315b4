#include "peers/lt_tuning.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "contestant.hpp"
#include "peers/recorded_graph.hpp"
#include "timing.hpp"

namespace bench {
namespace {

constexpr double kWarmSeconds = 0.25;
constexpr double kHopeless = 3.0;  // rough times above this share of the best are not timed again
constexpr double kClose = 1.1;     // those within this share of the best are timed once more
constexpr std::size_t kMostClose = 6;

// Few copies of what takes long by itself: they are there to hide the launch.
int copies_for(const GemmProblem& p) {
  const double flop = 2.0 * p.m * p.n * p.k;
  return flop > 2e9 ? 2 : 10;
}

RecordedGraph record_copies(const LtGemm& gemm, const LtAlgorithm& algorithm, void* workspace,
                            cudaStream_t stream) {
  return RecordedGraph(stream, [&] {
    for (int i = 0; i < copies_for(gemm.problem()); ++i) {
      gemm.enqueue(algorithm, workspace, stream);
    }
  });
}

std::string micros(double us) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.2f us", us);
  return text;
}

}  // namespace

std::map<std::string, std::vector<LtTuner::Timed>> LtTuner::ranked_;
std::map<std::string, std::vector<LtAlgorithm>> LtTuner::quickest_;

void log_choice(const std::string& line) {
  static const bool wanted = std::getenv("GRAPH_EXECUTOR_BENCH_LOG") != nullptr;
  if (wanted) std::fprintf(stderr, "peer: %s\n", line.c_str());
}

LtTuner::LtTuner(cudaStream_t stream) : stream_(stream), workspace_(kLtWorkspaceBytes) {}

std::vector<LtAlgorithm> LtTuner::quickest(const LtGemm& gemm, const Demand* demand) {
  constexpr std::size_t kWanted = 4;
  const std::string key = gemm.problem().key();
  const std::string demanded_key = key + (demand == nullptr ? "" : " " + demand->name);
  if (const auto known = quickest_.find(demanded_key); known != quickest_.end()) {
    return known->second;
  }
  auto ranked = ranked_.find(key);
  if (ranked == ranked_.end()) ranked = ranked_.emplace(key, rank(gemm)).first;
  std::vector<LtAlgorithm> found;
  double best_us = 0.0;
  for (const Timed& candidate : ranked->second) {
    if (found.size() == kWanted || (!found.empty() && candidate.us > kClose * best_us)) break;
    if (demand != nullptr && !demand->holds(gemm, [&] { run(gemm, candidate.algorithm); })) {
      log_choice(key + ": #" + std::to_string(candidate.algorithm.answer) + " fails " +
                 demand->name);
      continue;
    }
    if (found.empty()) best_us = candidate.us;
    found.push_back(candidate.algorithm);
  }
  quickest_.emplace(demanded_key, found);
  return found;
}

void LtTuner::run(const LtGemm& gemm, const LtAlgorithm& algorithm) {
  gemm.enqueue(algorithm, workspace_.as<void>(), stream_);
  check(cudaStreamSynchronize(stream_), "cuBLASLt");
}

std::vector<LtTuner::Timed> LtTuner::rank(const LtGemm& gemm) {
  const std::string key = gemm.problem().key();
  const std::vector<LtAlgorithm> answers = gemm.heuristic();
  std::vector<Timed> timed;
  double best = 1e30;
  for (const LtAlgorithm& algorithm : answers) {
    try {
      const RecordedGraph graph = record_copies(gemm, algorithm, workspace_.as<void>(), stream_);
      if (!warm_) {
        warm_up(graph, stream_, kWarmSeconds);
        warm_ = true;
      }
      const int copies = copies_for(gemm.problem());
      const double rough = rough_time_of(graph, stream_);
      if (rough / copies > kHopeless * best) continue;
      const double us = time_of(graph, stream_, rough, 300.0, 5) / copies;
      best = std::min(best, us);
      timed.push_back({algorithm, us});
    } catch (const Failed& failure) {  // the heuristic offers some that refuse to run
      if (cudaStreamSynchronize(stream_) != cudaSuccess) throw;  // the context is lost
      log_choice(key + ": #" + std::to_string(algorithm.answer) + " " + failure.what());
    }
  }
  const auto quicker = [](const Timed& a, const Timed& b) { return a.us < b.us; };
  std::stable_sort(timed.begin(), timed.end(), quicker);
  refine(gemm, timed);
  if (timed.empty()) {
    log_choice(key + ": not offered, " + std::to_string(answers.size()) + " answers");
  } else {
    log_choice(key + ": #" + std::to_string(timed.front().algorithm.answer) + " of " +
               std::to_string(answers.size()) + ", " + micros(timed.front().us));
  }
  return timed;
}

// Those at the top, in turn and with more samples.
void LtTuner::refine(const LtGemm& gemm, std::vector<Timed>& timed) {
  std::size_t close = 0;
  while (close < std::min(timed.size(), kMostClose) &&
         timed[close].us <= kClose * timed.front().us) {
    ++close;
  }
  if (close < 2) return;
  const int copies = copies_for(gemm.problem());
  std::vector<RecordedGraph> graphs;
  for (std::size_t i = 0; i < close; ++i) {
    graphs.push_back(record_copies(gemm, timed[i].algorithm, workspace_.as<void>(), stream_));
    graphs.back().launch(stream_);
  }
  std::vector<std::vector<double>> samples(close);
  for (int round = 0; round < 9; ++round) {
    for (std::size_t i = 0; i < close; ++i) {
      samples[i].push_back(time_of(graphs[i], stream_, timed[i].us * copies, 300.0, 1) / copies);
    }
  }
  for (std::size_t i = 0; i < close; ++i) timed[i].us = quantile(samples[i]);
  std::stable_sort(timed.begin(), timed.begin() + static_cast<std::ptrdiff_t>(close),
                   [](const Timed& a, const Timed& b) { return a.us < b.us; });
}

}  // namespace bench
