#include "capture/run_chooser.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <unordered_map>
#include <utility>
#include <variant>

#include "capture/problem_key.hpp"

namespace ai::detail {
namespace {

/// Symbolic storage that carries results of a run: what only its plans one by one would write there
/// is none.
std::vector<MemoryRange> storage_of(const Task& task) {
  std::vector<MemoryRange> storage;
  for (const Candidate& candidate : task.candidates) {
    for (const auto& step : candidate.steps) {
      for (const auto* ranges : {&step->reads(), &step->writes()}) {
        std::copy_if(ranges->begin(), ranges->end(), std::back_inserter(storage),
                     [](const MemoryRange& range) {
                       return symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin));
                     });
      }
    }
  }
  return storage;
}

// Of all runs that are asked for at once, as compiling takes its time; but with one alone there
// would be little to measure.
constexpr std::size_t kMostKernels = 64;
constexpr std::size_t kLeastOfARun = 2;

/// Such that values do not grow from layer to layer: as they do, differences do, and a check says
/// nothing any more.
float scale_of(const PlanRun& run) {
  std::int64_t most = 3;
  for (const GemmPlan& plan : run.plans) most = std::max(most, plan.k());
  return static_cast<float>(std::sqrt(3.0 / static_cast<double>(most)));
}

/// "3 layers".
std::string layers_text(const PlanRun& run) {
  const std::size_t count = run.plans.size();
  return std::to_string(count) + (count == 1 ? " layer" : " layers");
}

Candidate plan_by_plan(std::vector<std::shared_ptr<Step>> steps) {
  return {kPlanByPlan, {}, true, std::move(steps), kPlanByPlan};
}

}  // namespace

Status RunChooser::begin(double share_s) {
  if (!settings_.fuse_layers) return {};
  list_runs();
  const bool may_recall = settings_.measure && tuning_ == Tuning::Measure && !file_.path().empty();
  Indices first;
  Indices known;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.repeats) continue;
    const StoredChoice* const stored =
        may_recall ? file_.find(entry.decided.lowered.problem, share_s) : nullptr;
    if (stored != nullptr) entry.known = *stored;
    if (recall_layers(entry)) continue;
    first.push_back(i);
    if (entry.known) known.push_back(i);
  }
  AI_RETURN_IF_ERROR(fuse(first, Way::Any));
  AI_RETURN_IF_ERROR(fuse(settle_known(known), Way::Any));
  for (const std::size_t i : first) settle_unknown(entries_[i]);
  return settle_repeats();
}

Status RunChooser::finish(const Layers& layers, std::size_t tasks_done, double begin, double end) {
  const std::function<double()> now = settings_.now ? settings_.now : steady_seconds;
  const std::size_t runs = open();
  for (Entry& entry : entries_) {
    if (!entry.is_open) continue;
    const double start = now();
    TunerSettings settings = settings_;
    settings.budget_s = std::max(end - start, 0.0) / static_cast<double>(open());
    settings.kept_s = 0;
    if (report_.measured > 0) settings.warm_s = 0;
    if (settings_.on_progress) {
      // As of one measuring with what came before.
      settings.on_progress = [&](TuningProgress progress) {
        progress.tasks = tasks_done + runs;
        progress.tasks_done = tasks_done + runs - open();
        progress.elapsed_s += start - begin;
        progress.budget_s = settings_.budget_s;
        settings_.on_progress(progress);
      };
    }
    AI_RETURN_IF_ERROR(measure(entry, layers, settings));
    entry.is_open = false;
  }
  return settle_repeats();
}

bool RunChooser::is_whole(std::size_t item) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const std::vector<std::size_t>& items = entry.decided.lowered.run->items;
    return entry.decided.is_whole && std::find(items.begin(), items.end(), item) != items.end();
  });
}

std::size_t RunChooser::open() const noexcept {
  return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(),
                                                [](const Entry& entry) { return entry.is_open; }));
}

std::vector<RunChooser::Decided> RunChooser::take() {
  std::vector<Decided> all;
  for (Entry& entry : entries_) {
    Task& task = entry.decided.lowered.task;
    if (entry.decided.is_whole || !task.candidates.empty()) {
      all.push_back(std::move(entry.decided));
    }
  }
  return all;
}

void RunChooser::add_to(TuningReport& report) const noexcept {
  report.tasks += report_.tasks;
  report.recalled += report_.recalled;
  report.measured += report_.measured;
  report.candidates_timed += report_.candidates_timed;
  report.kernels_compiled += report_.kernels_compiled;
  report.compile_s += report_.compile_s;
}

void RunChooser::list_runs() {
  std::unordered_map<std::string, std::size_t> first_of;
  const auto may_run = [&](const GemmPlan& plan) { return backend_.can_fuse(plan); };
  // Unmeasured, a plan gives the same bits as by the direct path, which fuses nothing.
  const auto alone = [&](const GemmPlan& plan) {
    return settings_.measure && backend_.can_fuse_alone(plan);
  };
  for (Run& run : find_runs(program_.items(), may_run, backend_.most_fused(), alone)) {
    Entry entry;
    for (const std::size_t item : run.items) {
      entry.plans.plans.push_back(std::get<GemmPlan>(program_.items()[item]));
    }
    entry.plans.keeps_y = run.keeps_y;
    entry.decided.lowered.problem = problem_key(entry.plans);
    if (!settings_.cooperative) entry.decided.lowered.problem += ", no cooperative launch";
    entry.decided.lowered.item = run.items.front();
    entry.decided.lowered.trial_scale = scale_of(entry.plans);
    entry.decided.lowered.run = std::move(run);
    const auto [first, is_new] = first_of.emplace(entry.decided.lowered.problem, entries_.size());
    if (!is_new) entry.repeats = first->second;
    entry.decided.is_repeat = !is_new;
    entries_.push_back(std::move(entry));
  }
}

/// Where the file knows that plan by plan is best.
bool RunChooser::recall_layers(Entry& entry) {
  if (!entry.known || entry.known->candidate.recipe != kPlanByPlan) return false;
  LoweredTask& lowered = entry.decided.lowered;
  lowered.task.name = "run of " + layers_text(entry.plans);
  lowered.task.candidates = {plan_by_plan({})};
  lowered.stored = std::exchange(entry.known, std::nullopt);
  entry.decided.choice = take_stored(lowered);
  entry.decided.choice.note = note_on(*lowered.stored, file_.path());
  report_.tasks += 1;
  report_.recalled += 1;
  return true;
}

Status RunChooser::fuse(const Indices& which, Way way) {
  if (which.empty()) return {};
  std::vector<PlanRun> runs;
  for (const std::size_t i : which) runs.push_back(entries_[i].plans);
  FuseOptions options;
  const auto unknown = static_cast<std::size_t>(
      std::count_if(which.begin(), which.end(), [&](std::size_t i) { return !entries_[i].known; }));
  options.most =
      std::clamp(kMostKernels / std::max<std::size_t>(unknown, 1), kLeastOfARun, options.most);
  if (!settings_.measure || way == Way::AsKnown) options.most = 1;
  options.kernel_folder = settings_.kernel_folder;
  options.cooperative = settings_.cooperative;
  options.on_problem = [&](const Status& status) {
    if (!std::exchange(has_told_, true)) file_.warn(status);
  };
  const Recall recall = [&](std::size_t run) {
    const std::optional<StoredChoice>& known = entries_[which[run]].known;
    return known ? &known->candidate : nullptr;
  };
  Result<std::vector<Task>> tasks = backend_.fuse(runs, options, recall);
  AI_RETURN_IF_ERROR(tasks.status());
  for (std::size_t i = 0; i < which.size() && i < tasks->size(); ++i) {
    Task& task = (*tasks)[i];
    report_.kernels_compiled += task.compiled;
    report_.compile_s += task.compile_s;
    entries_[which[i]].decided.lowered.task = std::move(task);
  }
  return {};
}

RunChooser::Indices RunChooser::settle_known(const Indices& which) {
  Indices refused;
  for (const std::size_t i : which) {
    Entry& entry = entries_[i];
    LoweredTask& lowered = entry.decided.lowered;
    const StoredChoice known = *std::exchange(entry.known, std::nullopt);
    if (!lowered.task.recalled || applicable(lowered.task) != 1) {
      say(entry, "the backend cannot make it");
      continue;  // others were searched for
    }
    lowered.stored = known;
    Choice choice = take_stored(lowered);
    const Status status =
        prepare(lowered.task.candidates[static_cast<std::size_t>(choice.candidate)]);
    if (!status.ok()) {
      say(entry, status.message());
      lowered.stored.reset();
      refused.push_back(i);
      continue;
    }
    choice.note = note_on(known, file_.path());
    entry.decided.choice = std::move(choice);
    entry.decided.is_whole = true;
    report_.recalled += 1;
  }
  return refused;
}

/// Of what is not decided yet: to be measured, or, without measuring, what comes first.
void RunChooser::settle_unknown(Entry& entry) {
  if (entry.decided.is_whole) return;
  Task& task = entry.decided.lowered.task;
  if (settings_.measure && applicable(task) > 0) {
    entry.is_open = true;
    return;
  }
  if (task.candidates.empty()) return;
  std::string why;
  if (applicable(task) > 0) {
    Result<std::vector<Choice>> first = take_first({&entry.decided.lowered, 1});
    if (first) {
      entry.decided.choice = std::move(first->front());
      entry.decided.is_whole = true;
      return;
    }
    why = "dropped: " + first.status().to_string();
  }
  task.candidates.push_back(plan_by_plan({}));
  Choice& choice = entry.decided.choice;
  choice = undecided(task);
  choice.candidate = static_cast<int>(task.candidates.size()) - 1;
  for (std::size_t i = 0; i + 1 < task.candidates.size(); ++i) {
    if (task.candidates[i].applicable()) choice.verdicts[i].remark = why;
  }
}

/// A run whose problem was decided above gets the same candidate.
Status RunChooser::settle_repeats() {
  Indices which;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!entry.repeats || entry.decided.is_whole) continue;
    const Decided& first = entries_[*entry.repeats].decided;
    if (!first.is_whole) continue;
    const auto chosen = static_cast<std::size_t>(first.choice.candidate);
    const Candidate& candidate = first.lowered.task.candidates[chosen];
    entry.known.emplace();
    entry.known->candidate = {candidate.name, candidate.recipe};
    which.push_back(i);
  }
  AI_RETURN_IF_ERROR(fuse(which, Way::AsKnown));
  for (const std::size_t i : which) {
    Entry& entry = entries_[i];
    const std::string wanted = std::exchange(entry.known, std::nullopt)->candidate.name;
    const Decided& first = entries_[*entry.repeats].decided;
    const Task& task = entry.decided.lowered.task;
    Result<Choice> choice = take_again(task, wanted);
    if (!choice || !task.recalled) {
      entry.decided.lowered.task.candidates.clear();  // plan by plan then
      continue;
    }
    choice->note = "the same problem as " + first.lowered.task.name + " above";
    const auto chosen = static_cast<std::size_t>(first.choice.candidate);
    choice->verdicts[static_cast<std::size_t>(choice->candidate)].time_us =
        first.choice.verdicts[chosen].time_us;
    entry.decided.choice = std::move(*choice);
    entry.decided.is_whole = true;
  }
  return {};
}

Status RunChooser::measure(Entry& entry, const Layers& layers, const TunerSettings& settings) {
  LoweredTask& lowered = entry.decided.lowered;
  const std::vector<MemoryRange> storage = storage_of(lowered.task);
  lowered.task.candidates.push_back(plan_by_plan(layers(*lowered.run)));
  Result<std::vector<Choice>> choices =
      choose(api_, program_.device_index(), {&lowered, 1}, storage, settings);
  AI_RETURN_IF_ERROR(choices.status());
  Choice& choice = choices->front();
  report_.candidates_timed += count_timed(choice);
  report_.measured += count_timed(choice) > 0 ? 1 : 0;
  auto chosen = static_cast<std::size_t>(choice.candidate);
  if (choice.verdicts[chosen].time_us < 0) {
    // Nothing was measured, and the estimate alone let in what need not be quicker.
    chosen = lowered.task.candidates.size() - 1;
    choice.candidate = static_cast<int>(chosen);
  }
  entry.decided.is_whole = lowered.task.candidates[chosen].name != kPlanByPlan;
  report_.tasks += entry.decided.is_whole ? 0 : 1;  // the others are tasks of the program
  entry.decided.choice = std::move(choice);
  return {};
}

void RunChooser::say(const Entry& entry, const std::string& why) const {
  file_.warn(
      {StatusCode::Unsupported,
       "the tuning file " + file_.path() + " knows a way to carry out the " +
           layers_text(entry.plans) +
           " of a run at once that cannot be had, so that others are measured again: " + why});
}

}  // namespace ai::detail
