#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ai/backend.hpp"
#include "ai/program.hpp"
#include "ai/tuning.hpp"
#include "capture/choice.hpp"
#include "capture/lowering.hpp"
#include "capture/recollection.hpp"
#include "capture/runs.hpp"
#include "capture/tuner.hpp"
#include "cuda/api.hpp"

namespace ai::detail {

/// Decides which runs of a program are carried out as a whole, by one kernel each, and which plan
/// by plan. First `begin`, which settles what needs no measuring, then, with steps for every plan
/// of the others at hand, `finish`. All may throw std::bad_alloc.
class RunChooser {
 public:
  /// All outlive this. Without measuring, a candidate of the backend's is taken where there is one.
  RunChooser(const cuda::Api& api, const Program& program, Backend& backend, Recollection& file,
             Tuning tuning, const TunerSettings& settings)
      : api_(api),
        program_(program),
        backend_(backend),
        file_(file),
        tuning_(tuning),
        settings_(settings) {}

  /// What carries out a run plan by plan, prepared.
  using Layers = std::function<std::vector<std::shared_ptr<Step>>(const Run&)>;

  /// Finds the runs, where any are wanted, and ways to carry them out, and takes what the file
  /// knows. What was measured with less than `share_s` may be measured again.
  [[nodiscard]] Status begin(double share_s);
  /// Whether an item is part of a run that is carried out as a whole.
  [[nodiscard]] bool is_whole(std::size_t item) const;
  /// How many are to be measured.
  [[nodiscard]] std::size_t open() const noexcept;
  /// Measures these, on a clock that shows `end` when time is up and showed `begin` when measuring
  /// began; `tasks_done` have been measured since.
  [[nodiscard]] Status finish(const Layers& layers, std::size_t tasks_done, double begin,
                              double end);

  /// A run and what became of it.
  struct Decided {
    LoweredTask lowered = {};  ///< the ways to carry it out; none: there is nothing to say of it
    Choice choice = {};
    bool is_repeat = false;  ///< of an earlier run's problem
    bool is_whole = false;   ///< else plan by plan
  };
  /// In the order of their first plans.
  [[nodiscard]] std::vector<Decided> take();
  void add_to(TuningReport& report) const noexcept;

 private:
  struct Entry {
    Decided decided = {};
    PlanRun plans = {};
    std::optional<std::size_t> repeats = {};  ///< the first entry with its problem
    std::optional<StoredChoice> known = {};   ///< what to take
    bool is_open = false;                     ///< to be measured
  };
  using Indices = std::vector<std::size_t>;

  void list_runs();
  [[nodiscard]] bool recall_layers(Entry& entry);
  /// AsKnown: what is known alone, and no search in place of it.
  enum class Way { Any, AsKnown };
  /// Asks the backend for ways to carry the runs out, for what is known alone where that is so.
  [[nodiscard]] Status fuse(const Indices& which, Way way);
  /// Of runs whose candidate is known; gives those that cannot be had.
  [[nodiscard]] Indices settle_known(const Indices& which);
  void settle_unknown(Entry& entry);
  [[nodiscard]] Status settle_repeats();
  [[nodiscard]] Status measure(Entry& entry, const Layers& layers, const TunerSettings& settings);
  void say(const Entry& entry, const std::string& why) const;

  const cuda::Api& api_;
  const Program& program_;
  Backend& backend_;
  Recollection& file_;
  const Tuning tuning_;
  const TunerSettings& settings_;
  std::vector<Entry> entries_;
  bool has_told_ = false;  ///< what is wrong with the folder of kernels
  TuningReport report_;
};

/// The candidate that stands for "plan by plan" among those of a run.
inline constexpr const char* kPlanByPlan = "layers";

}  // namespace ai::detail
