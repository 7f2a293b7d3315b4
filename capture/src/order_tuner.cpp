#include "capture/order_tuner.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

namespace ai::detail {
namespace {

constexpr int kMostLanes = 4;
// What another order than that of the data flow must be quicker by.
constexpr double kWorthIt = 0.98;
constexpr std::string_view kRecipe = "lanes ";
constexpr char kRanOut[] = "the tuning budget of the program ran out";

std::string name_of(int lanes) {
  if (lanes == 0) return "unlimited";
  return std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes");
}

std::string line(const std::string& text) {
  return "order: " + text + "\n";
}

std::string as_data_flows(const std::string& why) {
  return line("as the data flow allows (" + why + ")");
}

std::string times(const std::string& name, double us, const std::string& other, double other_us) {
  char first[32];
  char second[32];
  std::snprintf(first, sizeof first, " %.2f us", us);
  std::snprintf(second, sizeof second, " %.2f us", other_us);
  return name + first + ", " + other + second;
}

/// FNV-1a.
class Hash {
 public:
  void add(std::string_view text) noexcept {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  void add(std::uint64_t number) noexcept {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
  }
  [[nodiscard]] std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
    return digits;
  }

 private:
  void add_byte(unsigned char byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3U; }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One order, ready to be timed.
struct Contender {
  int lanes;
  StepLists lists;
  TimedChain chain = {};
  std::vector<double> times = {};
  double us = 0;
};

class OrderTuner {
 public:
  OrderTuner(const cuda::Api& api, int device, std::span<const LoweredTask> tasks,
             const Picks& picks, const StepLists& lists, const OrderClock& clock)
      : api_(api), trial_(api, device, tasks), picks_(picks), clock_(clock) {
    for (const int lanes : {0, 4, 3, 2, 1}) {
      static_assert(kMostLanes == 4);
      Contender next{lanes, in_lanes(lists, lanes)};
      const bool is_known =
          std::any_of(contenders_.begin(), contenders_.end(),
                      [&](const Contender& other) { return other.lists == next.lists; });
      if (!is_known) contenders_.push_back(std::move(next));
    }
  }

  ChosenOrder run() {
    const std::size_t open = contenders_.size();
    if (!out_of_time()) {
      const Status status = measure();
      if (!status.ok() && status.code() != StatusCode::Unsupported) (void)api_.get_last_error();
      if (!status.ok()) return not_timed(status.message());
    }
    ChosenOrder chosen;
    if (contenders_.size() < 2 || contenders_.front().times.empty()) {
      chosen = not_timed(kRanOut);
      if (clock_.budget_s > 0) chosen.stored = to_store(0, -1, {}, -1, open);
      return chosen;
    }
    for (Contender& contender : contenders_) contender.us = median(std::move(contender.times));
    const Contender& unlimited = contenders_.front();
    const auto best =
        std::min_element(contenders_.begin() + 1, contenders_.end(),
                         [](const Contender& a, const Contender& b) { return a.us < b.us; });
    const bool is_worth_it = best->us < kWorthIt * unlimited.us;
    const Contender& first = is_worth_it ? *best : unlimited;
    const Contender& second = is_worth_it ? unlimited : *best;
    chosen.timed = contenders_.size();
    chosen.stored = to_store(first.lanes, first.us, name_of(second.lanes), second.us, open);
    chosen.order = {first.lanes,
                    line(times(name_of(first.lanes), first.us, name_of(second.lanes), second.us))};
    return chosen;
  }

 private:
  [[nodiscard]] bool out_of_time() const { return clock_.now() >= clock_.end; }

  static ChosenOrder not_timed(const std::string& why) {
    ChosenOrder chosen;
    chosen.order.note = as_data_flows("not timed: " + why);
    return chosen;
  }

  /// In turns, so that a drifting clock favours none. What there is no time for is left out.
  Status measure() {
    AI_RETURN_IF_ERROR(trial_.set_up({&picks_, 1}));
    std::size_t ready = 0;
    for (; ready < contenders_.size() && !out_of_time(); ++ready) {
      Contender& next = contenders_[ready];
      Result<TimedChain> chain = trial_.graph(picks_, next.lists);
      AI_RETURN_IF_ERROR(chain.status());
      next.chain = std::move(*chain);
    }
    is_cut_short_ = ready < contenders_.size();
    contenders_.erase(contenders_.begin() + static_cast<std::ptrdiff_t>(ready), contenders_.end());
    if (ready < 2) return {};
    const double warm_end = std::min(clock_.now() + clock_.warm_s, clock_.end);
    AI_RETURN_IF_ERROR(trial_.stopwatch().warm(contenders_.front().chain, warm_end, clock_.now));
    const int rounds = contenders_.front().chain.effort.final_repetitions;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> turn;
      for (; turn.size() < ready && !out_of_time();) {
        const Result<double> time = trial_.stopwatch().time(contenders_[turn.size()].chain);
        AI_RETURN_IF_ERROR(time.status());
        turn.push_back(*time);
      }
      is_cut_short_ = is_cut_short_ || turn.size() < ready;
      if (turn.size() < ready) break;
      for (std::size_t i = 0; i < ready; ++i) contenders_[i].times.push_back(turn[i]);
    }
    return {};
  }

  [[nodiscard]] StoredChoice to_store(int lanes, double us, std::string runner_up,
                                      double runner_up_us, std::size_t open) const {
    StoredChoice stored;
    stored.candidate = {name_of(lanes), std::string(kRecipe) + std::to_string(lanes)};
    stored.time_us = us;
    stored.runner_up = std::move(runner_up);
    stored.runner_up_us = runner_up_us;
    stored.applicable = static_cast<int>(open);
    stored.timed = us < 0 ? 0 : static_cast<int>(contenders_.size());
    stored.budget_s = us < 0 || is_cut_short_ ? clock_.budget_s : 0;
    return stored;
  }

  const cuda::Api& api_;
  ProgramTrial trial_;
  const Picks& picks_;
  const OrderClock& clock_;
  std::vector<Contender> contenders_;  // the first is without a limit
  bool is_cut_short_ = false;
};

}  // namespace

std::string order_key(std::span<const LoweredTask> tasks, const Picks& picks,
                      const StepLists& lists) {
  Hash hash;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Candidate& candidate = tasks[i].task.candidates[picks[i]];
    hash.add(tasks[i].fixed ? tasks[i].task.name : tasks[i].problem);
    hash.add(candidate.name);
    hash.add(candidate.recipe);
    hash.add(candidate.steps.size());
  }
  std::size_t edges = 0;
  for (const std::vector<int>& before : lists) {
    hash.add(before.size());
    for (const int d : before) hash.add(static_cast<std::uint64_t>(d));
    edges += before.size();
  }
  return "order of " + std::to_string(lists.size()) + " steps, " + std::to_string(edges) +
         " edges, " + hash.text();
}

std::optional<StepOrder> recalled_order(const StoredChoice& stored, const std::string& path) {
  const std::string& recipe = stored.candidate.recipe;
  if (!recipe.starts_with(kRecipe)) return std::nullopt;
  StepOrder order;
  const char* const end = recipe.data() + recipe.size();
  const auto read = std::from_chars(recipe.data() + kRecipe.size(), end, order.lanes);
  if (read.ec != std::errc() || read.ptr != end || order.lanes < 0 || order.lanes > kMostLanes) {
    return std::nullopt;
  }
  const std::string from = "from the tuning file " + path;
  if (stored.time_us >= 0 && !stored.runner_up.empty()) {
    order.note =
        line(times(name_of(order.lanes), stored.time_us, stored.runner_up, stored.runner_up_us) +
             " (" + from + ")");
  } else {
    order.note =
        order.lanes == 0 ? as_data_flows(from) : line(name_of(order.lanes) + " (" + from + ")");
  }
  return order;
}

ChosenOrder choose_order(const cuda::Api& api, int device, std::span<const LoweredTask> tasks,
                         const Picks& picks, const StepLists& lists, const OrderClock& clock) {
  return OrderTuner(api, device, tasks, picks, lists, clock).run();
}

}  // namespace ai::detail
