#include "capture/program_trial.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "capture/graph_exec.hpp"
#include "capture/recorder.hpp"
#include "capture/scratch.hpp"
#include "capture/trial.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

// Of a graph in one measurement, and what they may take together.
constexpr int kReplays = 25;
constexpr double kMeasurementUs = 1e3;

class NoStep final : public Step {
 public:
  using Step::Step;
  Status enqueue(const AddressMap&, Stream) override { return {}; }
};

/// Calls `visit(task, step)` for each step that is picked.
template <typename Visit>
void for_each_step(std::span<const LoweredTask> tasks, const Picks& picks, const Visit& visit) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const auto& step : tasks[i].task.candidates[picks[i]].steps) visit(tasks[i], step);
  }
}

}  // namespace

StepLists step_lists(std::span<const LoweredTask> tasks, const Picks& picks, int lanes) {
  std::vector<const Step*> steps;
  std::vector<bool> timed;
  for_each_step(tasks, picks, [&](const LoweredTask& task, const std::shared_ptr<Step>& step) {
    steps.push_back(step.get());
    timed.push_back(!task.fixed);
  });
  return in_lanes(dependencies(steps), lanes, timed);
}

Status ProgramTrial::set_up(std::span<const Picks> all) {
  Task whole;
  for (const Picks& picks : all) {
    Candidate& candidate = whole.candidates.emplace_back();
    for_each_step(tasks_, picks, [&](const LoweredTask& task, const std::shared_ptr<Step>& step) {
      if (!task.fixed) candidate.steps.push_back(step);
    });
  }
  const ScratchLayout layout(whole);
  std::size_t free = 0;
  std::size_t total = 0;
  AI_CUDA_RETURN_IF_ERROR(api_, mem_get_info, &free, &total);
  if (layout.bytes() > free / 4) {
    return {StatusCode::Unsupported,
            "scratch of " + std::to_string(layout.bytes()) +
                " bytes is more than can be had (at most a quarter of the free device memory)"};
  }
  Result<cuda::DeviceMemory> memory = cuda::DeviceMemory::allocate(api_, device_, layout.bytes());
  AI_RETURN_IF_ERROR(memory.status());
  scratch_ = std::move(*memory);
  addresses_ = layout.over(scratch_.data());
  Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
  AI_RETURN_IF_ERROR(stream.status());
  stream_ = std::move(*stream);
  Result<Stopwatch> stopwatch = Stopwatch::make(api_, stream_.get());
  AI_RETURN_IF_ERROR(stopwatch.status());
  stopwatch_.emplace(std::move(*stopwatch));
  return Trial(api_, stream_.get(), layout, {}, scratch_.data()).fill(TrialData::Plain);
}

Result<TimedChain> ProgramTrial::graph(const Picks& picks, const StepLists& lists) const {
  NoStep nothing("nothing", {}, {});
  std::vector<RecordedStep> steps;
  for_each_step(tasks_, picks, [&](const LoweredTask& task, const std::shared_ptr<Step>& step) {
    steps.push_back({task.fixed ? &nothing : step.get(), &addresses_, false});
  });
  constexpr int kRetries = 3;
  Result<Recording> recording = record(api_, stream_.get(), steps, lists, kRetries, Describe::No);
  AI_RETURN_IF_ERROR(recording.status());
  Result<cuda::OwnedGraphExec> exec = instantiate(api_, recording->graph.get(), stream_.get());
  AI_RETURN_IF_ERROR(exec.status());
  TimedChain chain{std::move(*exec)};
  for (int i = 0; i < 2; ++i) {
    const Result<double> once = stopwatch_->time(chain);
    AI_RETURN_IF_ERROR(once.status());
    chain.first_us = i == 0 ? *once : std::min(chain.first_us, *once);
  }
  chain.effort = effort_for(chain.first_us);
  chain.effort.copies = 1;
  chain.effort.replays = chain.first_us * kReplays < kMeasurementUs
                             ? kReplays
                             : std::max(1, static_cast<int>(kMeasurementUs / chain.first_us));
  return chain;
}

Result<Comparison> ProgramTrial::compare(std::span<const TimedChain* const> graphs) {
  const double warm_end = std::min(clock_.now() + std::exchange(warm_s_, 0), clock_.end);
  AI_RETURN_IF_ERROR(stopwatch_->warm(*graphs.front(), warm_end, clock_.now));
  Comparison result;
  std::vector<std::vector<double>> times(graphs.size());
  for (int round = 0; round < graphs.front()->effort.final_repetitions; ++round) {
    std::vector<double> turn;
    while (turn.size() < graphs.size() && !clock_.is_out()) {
      const Result<double> time = stopwatch_->time(*graphs[turn.size()]);
      AI_RETURN_IF_ERROR(time.status());
      turn.push_back(*time);
    }
    result.is_cut_short = turn.size() < graphs.size();
    if (result.is_cut_short) break;
    for (std::size_t i = 0; i < turn.size(); ++i) times[i].push_back(turn[i]);
  }
  if (times.front().empty()) return result;
  for (std::vector<double>& mine : times) result.us.push_back(median(std::move(mine)));
  return result;
}

/// Nothing may still run on memory that somebody else will own.
void ProgramTrial::settle() noexcept {
  if (!stream_) return;
  if (api_.stream_synchronize(stream_.get()) != cudaSuccess) (void)api_.get_last_error();
}

}  // namespace ai::detail
