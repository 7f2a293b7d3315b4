#include "capture/runs.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "ai/memory.hpp"
#include "ai/step.hpp"

namespace ai::detail {
namespace {

/// What an item touches, and of a plan that may be in a run what ties it to others.
struct Touch {
  std::vector<MemoryRange> reads = {};
  std::vector<MemoryRange> writes = {};
  bool writes_all = true;  ///< false: it may leave some of `writes` as it was
  bool can_run = false;
  bool links = false;                         ///< its A may be the Y of another
  MemoryRange a = {};                         ///< of a plan that can run, as are those below
  MemoryRange y = {};                         ///< also among `writes`
  std::vector<MemoryRange> other_reads = {};  ///< `reads` without A
};

Accesses accesses(const Touch& touch) noexcept {
  return {touch.reads, touch.writes};
}

bool any_overlaps(const std::vector<MemoryRange>& ranges, const MemoryRange& range) noexcept {
  for (const MemoryRange& each : ranges) {
    if (overlaps(each, range)) return true;
  }
  return false;
}

/// Of views that are not empty.
bool same(const MemoryRange& a, const MemoryRange& b) noexcept {
  return a.begin == b.begin && a.rows == b.rows && a.width == b.width && a.pitch == b.pitch;
}

Touch touch_of(const GemmPlan& plan) {
  Touch touch;
  touch.can_run = plan.direction() == GemmPlan::Direction::Forward && plan.m() > 0 &&
                  plan.n() > 0 && plan.k() > 0 && plan.attrs().alpha != 0.0F;
  for (const Operand& operand : ai::operands_of(plan)) {
    const MemoryRange range = range_of(*operand.tensor);
    if (operand.is_written) touch.writes.push_back(range);
    if (!operand.is_read) continue;
    touch.reads.push_back(range);
    if (operand.name != "A") touch.other_reads.push_back(range);
  }
  if (touch.can_run) {
    touch.links = !plan.attrs().trans_a;
    touch.a = range_of(plan.forward().A);
    touch.y = range_of(plan.forward().Y);
  }
  return touch;
}

Touch touch_of(const UserStep& step) {
  Touch touch;
  touch.reads = ranges_of(step.reads);
  touch.writes = ranges_of(step.writes);
  touch.writes_all = false;
  return touch;
}

Touch touch_of(const CopyStep& copy) {
  Touch touch;
  touch.reads = {range_of(copy.from)};
  touch.writes = {range_of(copy.to)};
  return touch;
}

class Finder {
 public:
  explicit Finder(std::span<const Program::Item> items, const PlanTest& may_run = {})
      : items_(items) {
    for (const Program::Item& item : items) {
      Touch touch = std::visit([](const auto& each) { return touch_of(each); }, item);
      if (touch.can_run && may_run && !may_run(std::get<GemmPlan>(item))) {
        touch.can_run = false;
        touch.links = false;
      }
      touches_.push_back(std::move(touch));
    }
    taken_.assign(touches_.size(), false);
  }

  std::vector<Run> find(std::size_t most, const PlanTest& alone) {
    std::vector<Run> runs;
    for (std::size_t first = 0; first < touches_.size(); ++first) {
      if (taken_[first] || !touches_[first].can_run) continue;
      Run run{{first}, {}};
      while (run.items.size() < most) {
        const std::optional<std::size_t> next = following(run);
        if (!next) break;
        run.items.push_back(*next);
      }
      const bool is_lone = run.items.size() == 1;
      if (is_lone && !(alone && alone(std::get<GemmPlan>(items_[first])))) continue;
      take(run);
      for (std::size_t i = 0; i + 1 < run.items.size(); ++i) run.keeps_y.push_back(keeps_y(run, i));
      run.keeps_y.push_back(true);
      runs.push_back(std::move(run));
    }
    return runs;
  }

  /// Marks its plans as taken where it may stand.
  bool stands(const Run& run) {
    Run front{{run.items.front()}, {}};
    for (std::size_t i = 1; i < run.items.size(); ++i) {
      if (!can_follow(front, run.items[i])) return false;
      front.items.push_back(run.items[i]);
    }
    take(run);
    return true;
  }

 private:
  void take(const Run& run) {
    for (const std::size_t item : run.items) taken_[item] = true;
  }

  [[nodiscard]] bool can_follow(const Run& run, std::size_t item) const noexcept {
    const Touch& touch = touches_[item];
    return touch.links && same(touch.a, touches_[run.items.back()].y) && is_apart(run, touch) &&
           can_move(run, item);
  }

  [[nodiscard]] std::optional<std::size_t> following(const Run& run) const noexcept {
    const MemoryRange& y = touches_[run.items.back()].y;
    for (std::size_t i = run.items.back() + 1; i < touches_.size(); ++i) {
      if (!taken_[i] && can_follow(run, i)) return i;
      // Who comes later and reads it would move over this item.
      if (any_overlaps(touches_[i].writes, y)) break;
    }
    return {};
  }

  /// Whether only A ties a plan to those of the run.
  [[nodiscard]] bool is_apart(const Run& run, const Touch& plan) const noexcept {
    for (const std::size_t item : run.items) {
      const Touch& member = touches_[item];
      if (in_conflict({plan.other_reads, plan.writes}, accesses(member))) return false;
    }
    return true;
  }

  /// Whether `item` may go where the run begins. What is taken by now is in earlier runs.
  [[nodiscard]] bool can_move(const Run& run, std::size_t item) const noexcept {
    std::size_t next = 0;  // the first of the run that is not in front of `over`
    for (std::size_t over = run.items.front(); over < item; ++over) {
      const bool is_mine = next < run.items.size() && run.items[next] == over;
      if (is_mine) ++next;
      if (is_mine || taken_[over]) continue;
      if (in_conflict(accesses(touches_[item]), accesses(touches_[over]))) return false;
    }
    return true;
  }

  [[nodiscard]] bool keeps_y(const Run& run, std::size_t index) const noexcept {
    const MemoryRange& y = touches_[run.items[index]].y;
    if (!symbolic::is_symbolic(reinterpret_cast<const void*>(y.begin))) return true;
    const std::size_t next = index + 1 < run.items.size() ? run.items[index + 1] : touches_.size();
    for (std::size_t i = run.items[index] + 1; i < touches_.size(); ++i) {
      const Touch& touch = touches_[i];
      if (i != next && any_overlaps(touch.reads, y)) return true;
      // From here on the memory holds another value.
      for (const MemoryRange& range : touch.writes) {
        if (touch.writes_all && same(range, y)) return false;
      }
    }
    return false;
  }

  std::span<const Program::Item> items_;
  std::vector<Touch> touches_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<Run> find_runs(std::span<const Program::Item> items, const PlanTest& may_run,
                           std::size_t most, const PlanTest& alone) {
  return Finder(items, may_run).find(most, alone);
}

bool may_stand(std::span<const Program::Item> items, std::span<const Run> runs) {
  Finder finder(items);
  return std::all_of(runs.begin(), runs.end(), [&](const Run& run) { return finder.stands(run); });
}

}  // namespace ai::detail
