#include "capture/order_tuner.hpp"

#include <algorithm>
#include <utility>

#include "capture/order_text.hpp"

namespace ai::detail {
namespace {

constexpr int kLanes[] = {0, 4, 3, 2, 1};
// What another order than that of the data flow must be quicker by, and another candidate than the
// quickest.
constexpr double kWorthAnOrder = 0.98;
constexpr double kWorthASwap = 0.99;
constexpr char kRanOut[] = "the tuning budget of the program ran out";

/// One order, ready to be timed.
struct Contender {
  TimedOrder order = {};
  StepLists lists = {};
  TimedChain graph = {};
};

class OrderTuner {
 public:
  OrderTuner(const cuda::Api& api, int device, std::span<const LoweredTask> tasks, Picks& picks,
             std::span<Swap> swaps, const TrialClock& clock)
      : api_(api),
        tasks_(tasks),
        picks_(picks),
        swaps_(swaps),
        clock_(clock),
        trial_(api, device, tasks, clock) {
    for (const int lanes : kLanes) {
      StepLists next = step_lists(tasks, picks, lanes);
      const bool is_known = std::any_of(contenders_.begin(), contenders_.end(),
                                        [&](const Contender& c) { return c.lists == next; });
      if (!is_known) contenders_.push_back({{lanes, -1}, std::move(next)});
    }
    open_ = contenders_.size();
  }

  ChosenOrder run() {
    if (open_ < 2 && swaps_.empty()) return {};
    if (clock_.is_out()) return out_of_time();
    if (Status status = set_up(); !status.ok()) return failed(status);
    if (Status status = time_orders(); !status.ok()) return failed(status);
    if (contenders_.front().order.us < 0 && open_ > 1) return out_of_time();
    Contender& best = *std::min_element(
        contenders_.begin(), contenders_.end(),
        [](const Contender& a, const Contender& b) { return weight(a) < weight(b); });
    const TimedOrder other = other_than(best);
    if (!is_cut_short_) {
      if (const Status status = try_swaps(best); !status.ok()) (void)forget(status);
    }
    if (open_ < 2) return {};
    ChosenOrder chosen{{best.order.lanes, note_on(best.order, other)},
                       to_store(best.order, other),
                       contenders_.size()};
    chosen.stored->applicable = static_cast<int>(open_);
    chosen.stored->timed = static_cast<int>(contenders_.size());
    chosen.stored->budget_s = is_cut_short_ ? clock_.budget_s : 0;
    return chosen;
  }

 private:
  /// The least is taken.
  static double weight(const Contender& contender) noexcept {
    return contender.order.us * (contender.order.lanes == 0 ? kWorthAnOrder : 1);
  }

  /// No limit, or the best lanes where that was taken.
  [[nodiscard]] TimedOrder other_than(const Contender& taken) const {
    if (&taken != &contenders_.front()) return contenders_.front().order;
    TimedOrder best;
    for (const Contender& contender : contenders_) {
      if (&contender == &taken || (best.us >= 0 && best.us <= contender.order.us)) continue;
      best = contender.order;
    }
    return best;
  }

  ChosenOrder not_timed(const std::string& why) const {
    ChosenOrder chosen;
    if (open_ > 1) chosen.order.note = note_on_data_flow("not timed: " + why);
    return chosen;
  }

  /// Kept too, so that only a capture with more time tries again.
  ChosenOrder out_of_time() const {
    ChosenOrder chosen = not_timed(kRanOut);
    if (clock_.budget_s <= 0 || open_ < 2) return chosen;
    chosen.stored = to_store({}, {});
    chosen.stored->applicable = static_cast<int>(open_);
    chosen.stored->budget_s = clock_.budget_s;
    return chosen;
  }

  ChosenOrder failed(const Status& status) const { return not_timed(forget(status)); }

  const std::string& forget(const Status& status) const {
    if (status.code() != StatusCode::Unsupported) (void)api_.get_last_error();
    return status.message();
  }

  Status set_up() {
    std::vector<Picks> all{picks_};
    for (const Swap& swap : swaps_) all.push_back(with(swap));
    return trial_.set_up(all);
  }

  /// What there is no time for is left out.
  Status time_orders() {
    std::size_t ready = 0;
    for (; ready < open_ && !clock_.is_out(); ++ready) {
      Contender& next = contenders_[ready];
      Result<TimedChain> graph = trial_.graph(picks_, next.lists);
      AI_RETURN_IF_ERROR(graph.status());
      next.graph = std::move(*graph);
    }
    is_cut_short_ = ready < open_;
    contenders_.resize(std::max<std::size_t>(ready, 1));
    if (ready < 2) return {};
    std::vector<const TimedChain*> graphs;
    for (const Contender& contender : contenders_) graphs.push_back(&contender.graph);
    const Result<Comparison> result = trial_.compare(graphs);
    AI_RETURN_IF_ERROR(result.status());
    is_cut_short_ = is_cut_short_ || result->is_cut_short;
    for (std::size_t i = 0; i < result->us.size(); ++i) contenders_[i].order.us = result->us[i];
    return {};
  }

  [[nodiscard]] Picks with(const Swap& swap) const {
    Picks picks = picks_;
    for (const Swap::Pick& pick : swap.picks) picks[pick.task] = pick.candidate;
    return picks;
  }

  /// Each against the best so far; what seems quicker has to be so twice.
  Status try_swaps(Contender& best) {
    for (Swap& swap : swaps_) {
      if (clock_.is_out()) return {};
      const Picks picks = with(swap);
      Result<TimedChain> graph = trial_.graph(picks, step_lists(tasks_, picks, best.order.lanes));
      AI_RETURN_IF_ERROR(graph.status());
      const TimedChain* const graphs[] = {&best.graph, &*graph};
      Comparison last;
      bool is_quicker = true;
      for (int i = 0; i < 2 && is_quicker; ++i) {
        Result<Comparison> result = trial_.compare(graphs);
        AI_RETURN_IF_ERROR(result.status());
        last = std::move(*result);
        is_quicker = !last.is_cut_short && last.us[1] < kWorthASwap * last.us[0];
      }
      if (!is_quicker) continue;
      swap.is_taken = true;
      swap.us_without = last.us[0];
      swap.us = best.order.us = last.us[1];
      picks_ = picks;
      best.graph = std::move(*graph);
    }
    return {};
  }

  const cuda::Api& api_;
  const std::span<const LoweredTask> tasks_;
  Picks& picks_;
  const std::span<Swap> swaps_;
  const TrialClock& clock_;
  ProgramTrial trial_;
  std::vector<Contender> contenders_;  // the first is without a limit
  std::size_t open_ = 0;               // how many there were
  bool is_cut_short_ = false;
};

}  // namespace

ChosenOrder choose_order(const cuda::Api& api, int device, std::span<const LoweredTask> tasks,
                         Picks& picks, std::span<Swap> swaps, const TrialClock& clock) {
  return OrderTuner(api, device, tasks, picks, swaps, clock).run();
}

}  // namespace ai::detail
