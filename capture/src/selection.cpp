#include "capture/selection.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "capture/keeping.hpp"
#include "capture/order_text.hpp"
#include "capture/order_tuner.hpp"
#include "capture/problem_key.hpp"
#include "capture/run_chooser.hpp"
#include "capture/swaps.hpp"

namespace ai::detail {
namespace {

// Of the budget, for timing the program as a whole, and before that runs of plans as a whole.
constexpr double kForWhole = 0.2;
constexpr double kForRuns = 0.2;

class Selector {
 public:
  Selector(const cuda::Api& api, const Program& program, Backend& backend,
           const CopyMaker& make_copy, Recollection& file, Tuning tuning,
           const TunerSettings& settings)
      : api_(api),
        program_(program),
        backend_(backend),
        make_copy_(make_copy),
        file_(file),
        tuning_(tuning),
        settings_(settings),
        now_(settings.now ? settings.now : steady_seconds),
        runs_(api, program, backend, file, tuning, settings) {}

  Result<Selection> run() {
    const double begin = now_();
    context_ = context_of(program_);
    share_s_ = settings_.budget_s / static_cast<double>(count_problems());
    AI_RETURN_IF_ERROR(runs_.begin(share_s_));
    AI_RETURN_IF_ERROR(lower_first());
    begin_ = now_();
    AI_RETURN_IF_ERROR(choose_first());
    keep_first();
    AI_RETURN_IF_ERROR(repeat_all());
    const double end = begin_ + (1 - kept_for_whole_) * settings_.budget_s;
    AI_RETURN_IF_ERROR(
        runs_.finish([this](const Run& run) { return layers_of(run); }, tasks_told_, begin_, end));
    runs_.add_to(report_);
    TuningCache::Choices measured;
    Selection selection;
    std::vector<bool> repeats;
    place_runs(selection, measured);
    for (Part& part : parts_) {
      for (const LoweredTask& lowered : part.tasks) count(lowered.task, lowered.stored.has_value());
      repeats.insert(repeats.end(), part.tasks.size(), part.repeats.has_value());
      std::move(part.tasks.begin(), part.tasks.end(), std::back_inserter(selection.tasks));
      std::move(part.choices.begin(), part.choices.end(), std::back_inserter(selection.choices));
    }
    if (measures()) {
      const Picks alone = picks_of(selection);
      look_at_whole(selection, repeats, measured);
      keep_in(context_, selection, repeats, alone, share_s_, file_, measured);
      file_.store(measured);
    }
    report_.seconds = now_() - begin;
    selection.report = report_;
    return selection;
  }

 private:
  /// An item of the program.
  struct Part {
    std::optional<std::size_t> repeats = {};  ///< the first item with its problem
    std::vector<LoweredTask> tasks = {};
    std::vector<Choice> choices = {};
  };

  [[nodiscard]] bool measures() const noexcept { return settings_.measure; }

  Result<std::vector<LoweredTask>> lower(std::size_t index, const KnownChoices& known,
                                         Status& refused) {
    return lower_known(program_.items()[index], index, backend_, Target::CUDA, make_copy_, known,
                       refused);
  }

  [[nodiscard]] std::size_t count_problems() const {
    std::set<std::string> problems;
    for (const Program::Item& item : program_.items()) {
      if (const auto* plan = std::get_if<GemmPlan>(&item)) problems.insert(problem_key(*plan));
    }
    return std::max<std::size_t>(problems.size(), 1);
  }

  /// Every item whose problem is new.
  Status lower_first() {
    std::unordered_map<std::string, std::size_t> first_of;
    KnownChoices known;
    if (measures() && tuning_ == Tuning::Measure && !file_.path().empty()) {
      known = [&](const std::string& problem) {
        const StoredChoice* const here = file_.find(key_in(problem, context_), share_s_);
        return here != nullptr ? here : file_.find(problem, share_s_);
      };
    }
    for (std::size_t i = 0; i < program_.items().size(); ++i) {
      Part& part = parts_.emplace_back();
      if (runs_.is_whole(i)) continue;
      if (const auto* plan = std::get_if<GemmPlan>(&program_.items()[i])) {
        const auto [first, is_new] = first_of.emplace(problem_key(*plan), i);
        if (!is_new) part.repeats = first->second;
        if (!is_new) continue;
      }
      Status refused;
      Result<std::vector<LoweredTask>> tasks = lower(i, known, refused);
      AI_RETURN_IF_ERROR(tasks.status());
      part.tasks = std::move(*tasks);
      if (!refused.ok()) {
        file_.warn({refused.code(), "the tuning file " + file_.path() +
                                        " knows a candidate that cannot be had, so that others are "
                                        "measured again: " +
                                        refused.message()});
      }
    }
    return {};
  }

  Status choose_first() {
    std::vector<LoweredTask> tasks;
    for (Part& part : parts_) {
      std::move(part.tasks.begin(), part.tasks.end(), std::back_inserter(tasks));
    }
    TunerSettings settings = settings_;
    if (tasks.size() > 1) kept_for_whole_ = kForWhole;
    const double kept_for_runs = runs_.open() > 0 ? kForRuns : 0;
    settings.kept_s = (kept_for_whole_ + kept_for_runs) * settings_.budget_s;
    if (settings_.on_progress) {
      settings.on_progress = [&](TuningProgress progress) {
        tasks_told_ = progress.tasks;
        progress.tasks += runs_.open();
        settings_.on_progress(progress);
      };
    }
    Result<std::vector<Choice>> choices =
        choose(api_, program_.device_index(), tasks, temporaries_of(program_), settings);
    AI_RETURN_IF_ERROR(choices.status());
    std::size_t next = 0;
    for (Part& part : parts_) {
      for (LoweredTask& lowered : part.tasks) {
        Choice& choice = (*choices)[next];
        lowered = std::move(tasks[next++]);
        if (lowered.stored) {
          choice.note = note_on(*lowered.stored, file_.path());
          report_.recalled += 1;
        }
        part.choices.push_back(std::move(choice));
      }
    }
    return {};
  }

  /// What was chosen serves the rest of the program.
  void keep_first() {
    for (const Part& part : parts_) {
      for (std::size_t i = 0; i < part.tasks.size(); ++i) {
        const LoweredTask& lowered = part.tasks[i];
        const Choice& choice = part.choices[i];
        const auto chosen = static_cast<std::size_t>(choice.candidate);
        const Candidate& candidate = lowered.task.candidates[chosen];
        if (!candidate.recipe.empty()) {
          StoredChoice& known = chosen_[lowered.problem];
          known.candidate = {candidate.name, candidate.recipe};
          known.time_us = choice.verdicts[chosen].time_us;
        }
        const std::size_t timed = count_timed(choice);
        report_.measured += timed > 0 ? 1 : 0;
        report_.candidates_timed += timed;
      }
    }
  }

  Status repeat_all() {
    const KnownChoices known = [&](const std::string& problem) {
      const auto found = chosen_.find(problem);
      return found != chosen_.end() ? &found->second : nullptr;
    };
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (!part.repeats) continue;
      Status refused;  // others are chosen as they were there
      Result<std::vector<LoweredTask>> tasks = lower(i, known, refused);
      AI_RETURN_IF_ERROR(tasks.status());
      part.tasks = std::move(*tasks);
      for (std::size_t task = 0; task < part.tasks.size(); ++task) {
        const Part& first = parts_[*part.repeats];
        Result<Choice> choice = repeated(part.tasks[task], first.tasks, first.choices, task);
        AI_RETURN_IF_ERROR(choice.status());
        part.choices.push_back(std::move(*choice));
      }
    }
    return {};
  }

  /// What was chosen for the plans of a run, one by one.
  [[nodiscard]] std::vector<std::shared_ptr<Step>> layers_of(const Run& run) const {
    std::vector<std::shared_ptr<Step>> steps;
    for (const std::size_t item : run.items) {
      const auto mine = chosen_steps(parts_[item].tasks, parts_[item].choices);
      steps.insert(steps.end(), mine.begin(), mine.end());
    }
    return steps;
  }

  /// A run that is carried out as a whole takes the place of its first plan. What is known of its
  /// plans one by one is kept for other programs.
  void place_runs(Selection& selection, TuningCache::Choices& measured) {
    for (RunChooser::Decided& decided : runs_.take()) {
      const auto stored = to_store(decided.lowered.task, decided.choice,
                                   std::max(decided.choice.share_s, share_s_));
      const bool is_new = measures() && !decided.is_repeat && !decided.lowered.stored;
      if (is_new && stored) measured.emplace(decided.lowered.problem, *stored);
      if (!decided.is_whole) {
        if (!decided.is_repeat) {
          selection.run_notes += explain({&decided.lowered, 1}, {&decided.choice, 1});
        }
        continue;
      }
      for (const std::size_t item : decided.lowered.run->items) {
        const Part& part = parts_[item];
        for (const LoweredTask& lowered : part.tasks) {
          count(lowered.task, lowered.stored.has_value());
        }
        if (measures() && !part.repeats) {
          keep_alone(part.tasks, part.choices, share_s_, measured);
        }
        parts_[item] = {};
      }
      Part& part = parts_[decided.lowered.run->items.front()];
      if (decided.is_repeat) part.repeats = decided.lowered.run->items.front();
      part.tasks.push_back(std::move(decided.lowered));
      part.choices.push_back(std::move(decided.choice));
    }
  }

  static Picks picks_of(const Selection& selection) {
    Picks picks;
    for (const Choice& choice : selection.choices) {
      picks.push_back(static_cast<std::size_t>(choice.candidate));
    }
    return picks;
  }

  /// How many steps may run at once: as the file knows, else as is measured, and then which
  /// runners-up are better in their places.
  void look_at_whole(Selection& selection, const std::vector<bool>& repeats,
                     TuningCache::Choices& measured) {
    const auto open = std::count_if(selection.tasks.begin(), selection.tasks.end(),
                                    [](const LoweredTask& lowered) { return !lowered.fixed; });
    if (open == 0) return;
    Picks picks = picks_of(selection);
    const StepLists lists = step_lists(selection.tasks, picks);
    const bool may_recall = tuning_ == Tuning::Measure && !file_.path().empty();
    if (may_recall && !is_chain(lists)) {
      const StoredChoice* const known =
          file_.find(order_key(selection.tasks, picks, lists), settings_.budget_s);
      auto order = known != nullptr ? recalled_order(*known, file_.path()) : std::nullopt;
      if (order) {
        selection.order = std::move(*order);
        return;
      }
    }
    std::vector<Swap> swaps;
    if (open > 1) {
      const LowerAgain lower = [this](std::size_t item) {
        return lower_item(program_.items()[item], item, backend_, Target::CUDA, make_copy_);
      };
      swaps = find_swaps(selection, repeats, lower);
      picks = picks_of(selection);
    }
    const double warm_s = report_.measured > 0 ? 0 : settings_.warm_s;
    const TrialClock clock{now_, begin_ + settings_.budget_s, settings_.budget_s, warm_s};
    ChosenOrder chosen =
        choose_order(api_, program_.device_index(), selection.tasks, picks, swaps, clock);
    settle_swaps(swaps, selection);
    report_.orders_timed = chosen.timed;
    if (chosen.stored) {
      measured.emplace(order_key(selection.tasks, picks, step_lists(selection.tasks, picks)),
                       *chosen.stored);
    }
    selection.order = std::move(chosen.order);
  }

  void count(const Task& task, bool was_known) noexcept {
    report_.heuristic_queries += task.queries;
    if (was_known || applicable(task) > 1) report_.tasks += 1;
  }

  const cuda::Api& api_;
  const Program& program_;
  Backend& backend_;
  const CopyMaker& make_copy_;
  Recollection& file_;
  const Tuning tuning_;
  const TunerSettings& settings_;
  const std::function<double()> now_;
  std::string context_;
  double share_s_ = 0;  // of the budget, for each problem if none is known
  double begin_ = 0;    // of measuring
  std::vector<Part> parts_;
  std::map<std::string, StoredChoice> chosen_;  // by problem
  TuningReport report_;
  RunChooser runs_;
  double kept_for_whole_ = 0;   // of the budget
  std::size_t tasks_told_ = 0;  // as progress of them was told: those before the runs
};

}  // namespace

Result<Selection> select(const cuda::Api& api, const Program& program, Backend& backend,
                         const CopyMaker& make_copy, Recollection& file, Tuning tuning,
                         const TunerSettings& settings) {
  return Selector(api, program, backend, make_copy, file, tuning, settings).run();
}

}  // namespace ai::detail
