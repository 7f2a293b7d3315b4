#include "capture/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "capture/task_tuner.hpp"
#include "cuda/error.hpp"

namespace ai::detail {
namespace {

// A task is measured again only with so much of its first share: less shows less, loaded or not.
constexpr double kWorthAgain = 0.25;

/// Whether the first applicable candidate needs a check before it may be taken.
bool first_is_doubtful(const Task& task) {
  for (const Candidate& candidate : task.candidates) {
    if (candidate.applicable()) return !candidate.trusted;
  }
  return false;
}

class ProgramTuner {
 public:
  ProgramTuner(const cuda::Api& api, int device, std::span<const LoweredTask> tasks,
               std::span<const MemoryRange> temporaries, const TunerSettings& settings)
      : api_(api),
        device_(device),
        tasks_(tasks),
        values_(temporaries.begin(), temporaries.end()),
        settings_(settings),
        now_(settings.now ? settings.now : steady_seconds),
        begin_(now_()),
        kept_s_(settings.kept_s) {}

  Result<std::vector<Choice>> run() {
    find_open();
    AI_RETURN_IF_ERROR(set_up());
    std::vector<Choice> choices;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      Result<Choice> choice = choose_task(i);
      if (!choice) return choice.status();
      choices.push_back(std::move(*choice));
    }
    measure_again(choices);
    return choices;
  }

 private:
  /// An open task is one whose candidates are to be run.
  void find_open() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const LoweredTask& lowered = tasks_[i];
      if (lowered.fixed || lowered.stored) continue;
      const bool open =
          settings_.measure ? applicable(lowered.task) > 1 : first_is_doubtful(lowered.task);
      if (open) open_.emplace(i, ScratchLayout(lowered.task));
    }
    if (open_.empty()) return;
    const std::vector<MemoryRange> between = storage_between(tasks_);
    values_.insert(values_.end(), between.begin(), between.end());
  }

  /// Scratch for the largest task that fits a quarter of the free memory.
  Status set_up() {
    if (open_.empty()) return {};
    std::size_t free = 0;
    std::size_t total = 0;
    AI_CUDA_RETURN_IF_ERROR(api_, mem_get_info, &free, &total);
    limit_ = free / 4;
    std::size_t bytes = 0;
    for (const auto& [index, layout] : open_) {
      if (layout.bytes() <= limit_) bytes = std::max(bytes, layout.bytes());
    }
    Result<cuda::DeviceMemory> memory = cuda::DeviceMemory::allocate(api_, device_, bytes);
    if (memory) {
      scratch_ = std::move(*memory);
    } else if (memory.status().code() == StatusCode::OutOfMemory) {
      limit_ = 0;
    } else {
      return memory.status();
    }
    Result<cuda::OwnedStream> stream = cuda::make_stream(api_);
    if (!stream) return stream.status();
    stream_ = std::move(*stream);
    Result<Stopwatch> stopwatch = Stopwatch::make(api_, stream_.get());
    if (!stopwatch) return stopwatch.status();
    stopwatch_.emplace(std::move(*stopwatch));
    bench_.emplace(TuningBench{api_, stream_.get(), *stopwatch_, now_, settings_.warm_s});
    return {};
  }

  Result<Choice> choose_task(std::size_t i) {
    const LoweredTask& lowered = tasks_[i];
    if (lowered.stored) return take_stored(lowered);
    if (const auto open = open_.find(i); open != open_.end()) {
      return choose_open(lowered, open->second);
    }
    Result<std::vector<Choice>> choice = take_first({&lowered, 1});
    if (!choice) return choice.status();
    return std::move(choice->front());
  }

  Result<Choice> choose_open(const LoweredTask& lowered, const ScratchLayout& layout) {
    const Task& task = lowered.task;
    const double share_s = left_s() / static_cast<double>(open_.size() - seen_);
    seen_ += 1;
    std::optional<Trial> trial;
    std::string why_not;
    if (layout.bytes() <= limit_) {
      trial.emplace(trial_of(lowered, layout));
    } else {
      why_not = "its scratch of " + std::to_string(layout.bytes()) +
                " bytes is more than can be had (at most a quarter of the free device memory)";
    }
    TaskTuner tuner(*bench_, task, trial ? &*trial : nullptr, std::move(why_not));
    if (settings_.measure) measure(tuner, task, share_s);
    Result<Choice> choice = tuner.decide();
    if (!choice) return choice;
    choice->share_s = std::max(share_s, 0.0);
    done_ += choice->is_cut_short ? 0 : 1;
    return choice;
  }

  /// The first tasks pay for what is loaded late, and none knows what the others leave of their
  /// shares: those that were cut short share what is left.
  void measure_again(std::vector<Choice>& choices) {
    std::vector<std::size_t> again;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].is_cut_short && open_.count(i) > 0) again.push_back(i);
    }
    for (std::size_t i = 0; i < again.size(); ++i) {
      const double share_s = left_s() / static_cast<double>(again.size() - i);
      Choice& choice = choices[again[i]];
      const bool is_worth_it = fell_back(choice) || share_s >= kWorthAgain * choice.share_s;
      if (share_s <= 0 || !is_worth_it) continue;
      const Task& task = tasks_[again[i]].task;
      Trial trial = trial_of(tasks_[again[i]], open_.at(again[i]));
      TaskTuner tuner(*bench_, task, &trial, {});
      tuner.leave_out(choice);
      measure(tuner, task, share_s);
      done_ += 1;
      replace(choice, tuner);
      choice.share_s = std::max(choice.share_s, share_s);
    }
  }

  static void replace(Choice& choice, TaskTuner& tuner) {
    if (!tuner.has_winner()) return;
    Result<Choice> other = tuner.decide();
    if (!other) return;
    const Verdict& old = choice.verdicts[static_cast<std::size_t>(choice.candidate)];
    const Verdict& now = other->verdicts[static_cast<std::size_t>(other->candidate)];
    const bool is_better = old.time_us < 0 || !old.checked || now.time_us < old.time_us;
    if (other->is_cut_short && !is_better) return;
    other->share_s = choice.share_s;
    choice = std::move(*other);
  }

  [[nodiscard]] double left_s() const { return begin_ + settings_.budget_s - kept_s_ - now_(); }

  Trial trial_of(const LoweredTask& lowered, const ScratchLayout& layout) {
    return {api_,
            stream_.get(),
            layout,
            trial_operands(lowered.task.candidates.back(), values_),
            scratch_.data(),
            lowered.trial_scale};
  }

  /// Late checks live on what is kept, so that they take nothing from the shares of other tasks.
  void measure(TaskTuner& tuner, const Task& task, double share_s) {
    const std::size_t candidates = applicable(task);
    const double deadline = now_() + share_s;
    tuner.measure(deadline, deadline + kept_s_,
                  [&](std::size_t tried) { report(task, candidates, tried); });
    kept_s_ = std::max(kept_s_ - tuner.late_s(), 0.0);
  }

  void report(const Task& task, std::size_t candidates, std::size_t tried) const noexcept {
    if (!settings_.on_progress) return;
    try {
      settings_.on_progress({.task = task.name,
                             .tasks = open_.size(),
                             .tasks_done = done_,
                             .candidates = candidates,
                             .candidates_done = tried,
                             .elapsed_s = now_() - begin_,
                             .budget_s = settings_.budget_s});
    } catch (...) {  // the caller's own
    }
  }

  const cuda::Api& api_;
  const int device_;
  std::span<const LoweredTask> tasks_;
  std::vector<MemoryRange> values_;  // symbolic storage that is an operand
  const TunerSettings& settings_;
  std::function<double()> now_;
  const double begin_;
  std::unordered_map<std::size_t, ScratchLayout> open_;
  double kept_s_;         // what is left of it
  std::size_t seen_ = 0;  // of them
  std::size_t done_ = 0;  // of those, measured whole or twice
  std::size_t limit_ = 0;
  cuda::DeviceMemory scratch_;
  cuda::OwnedStream stream_;
  std::optional<Stopwatch> stopwatch_;
  std::optional<TuningBench> bench_;
};

}  // namespace

double steady_seconds() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Result<std::vector<Choice>> choose(const cuda::Api& api, int device,
                                   std::span<const LoweredTask> tasks,
                                   std::span<const MemoryRange> temporaries,
                                   const TunerSettings& settings) {
  return ProgramTuner(api, device, tasks, temporaries, settings).run();
}

}  // namespace ai::detail
