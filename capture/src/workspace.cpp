#include "capture/workspace.hpp"

#include <algorithm>

namespace ai::detail {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_symbolic(const MemoryRange& range) noexcept {
  return symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin));
}

/// A set of step indices.
class StepSet {
 public:
  explicit StepSet(std::size_t steps, bool full = false)
      : words_((steps + 63) / 64, full ? ~std::uint64_t{0} : 0) {}
  void insert(std::size_t i) noexcept { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void unite(const StepSet& other) noexcept {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  void intersect(const StepSet& other) noexcept {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  }
  [[nodiscard]] bool inside(const StepSet& other) const noexcept {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & ~other.words_[w]) != 0) return false;
    }
    return true;
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct Buffer {
  Buffer(Interval where, std::size_t steps) : interval(where), users(steps), before(steps, true) {}
  [[nodiscard]] std::size_t bytes() const noexcept { return interval.end - interval.begin; }

  Interval interval;
  StepSet users;
  StepSet before;  // the steps that precede every user
  bool used = false;
  bool is_state = false;
  std::size_t offset = 0;
};

bool may_share(const Buffer& a, const Buffer& b) noexcept {
  if (a.is_state || b.is_state) return false;
  return a.users.inside(b.before) || b.users.inside(a.before);
}

/// ancestors[i]: the steps that are over before step i begins.
std::vector<StepSet> ancestors_of(const std::vector<std::vector<int>>& dependencies) {
  std::vector<StepSet> ancestors(dependencies.size(), StepSet(dependencies.size()));
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    for (const int d : dependencies[i]) {
      const auto earlier = static_cast<std::size_t>(d);
      ancestors[i].unite(ancestors[earlier]);
      ancestors[i].insert(earlier);
    }
  }
  return ancestors;
}

std::vector<Interval> symbolic_intervals(std::span<const Step* const> steps,
                                         std::span<const MemoryRange> temporaries) {
  std::vector<Interval> intervals;
  for (const MemoryRange& range : temporaries) intervals.push_back({range.begin, range.end()});
  for (const Step* step : steps) {
    for (const auto* ranges : {&step->reads(), &step->writes()}) {
      for (const MemoryRange& range : *ranges) {
        if (is_symbolic(range)) intervals.push_back({range.begin, range.end()});
      }
    }
  }
  merge(intervals);
  return intervals;
}

/// The tightest gap between the placed buffers that `buffer` conflicts with, else behind them.
std::size_t best_offset(const Buffer& buffer, std::span<const Buffer* const> placed) {
  std::vector<Interval> taken;
  for (const Buffer* other : placed) {
    if (!may_share(buffer, *other)) {
      taken.push_back({other->offset, other->offset + aligned(other->bytes())});
    }
  }
  merge(taken);
  const std::size_t need = aligned(buffer.bytes());
  std::size_t free_from = 0;
  std::size_t best = 0;
  std::size_t best_gap = 0;
  for (const Interval& block : taken) {
    const std::size_t gap = block.begin - free_from;
    if (gap >= need && (best_gap == 0 || gap < best_gap)) {
      best = free_from;
      best_gap = gap;
    }
    free_from = block.end;
  }
  return best_gap != 0 ? best : free_from;
}

}  // namespace

void merge(std::vector<Interval>& intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.begin >= i.end; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t count = 0;
  for (const Interval& next : intervals) {
    if (count > 0 && next.begin < intervals[count - 1].end) {
      intervals[count - 1].end = std::max(intervals[count - 1].end, next.end);
    } else {
      intervals[count++] = next;
    }
  }
  intervals.resize(count);
}

int find(std::span<const Interval> intervals, std::uintptr_t address) noexcept {
  const auto after =
      std::upper_bound(intervals.begin(), intervals.end(), address,
                       [](std::uintptr_t value, const Interval& i) { return value < i.begin; });
  if (after == intervals.begin() || address >= (after - 1)->end) return -1;
  return static_cast<int>(after - intervals.begin()) - 1;
}

AddressMap WorkspacePlan::over(void* base) const {
  AddressMap map;
  for (const Placement& p : placements) {
    map.add(p.address, p.bytes, static_cast<std::byte*>(base) + p.offset);
  }
  return map;
}

WorkspacePlan plan_workspace(std::span<const Step* const> steps,
                             const std::vector<std::vector<int>>& dependencies,
                             std::span<const MemoryRange> temporaries) {
  const std::vector<Interval> intervals = symbolic_intervals(steps, temporaries);
  const std::vector<StepSet> ancestors = ancestors_of(dependencies);
  std::vector<Buffer> buffers;
  for (const Interval& interval : intervals) buffers.emplace_back(interval, steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto* ranges : {&steps[i]->reads(), &steps[i]->writes()}) {
      for (const MemoryRange& range : *ranges) {
        const int b = range.empty() ? -1 : find(intervals, range.begin);
        if (b < 0) continue;
        Buffer& buffer = buffers[static_cast<std::size_t>(b)];
        buffer.users.insert(i);
        buffer.before.intersect(ancestors[i]);
        buffer.used = true;
      }
    }
    for (const MemoryRange& range : steps[i]->state()) {
      const int b = range.empty() ? -1 : find(intervals, range.begin);
      if (b >= 0) buffers[static_cast<std::size_t>(b)].is_state = true;
    }
  }
  std::erase_if(buffers, [](const Buffer& buffer) { return !buffer.used; });

  std::vector<Buffer*> order;
  for (Buffer& buffer : buffers) order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes() > b->bytes(); });
  WorkspacePlan plan;
  std::vector<const Buffer*> placed;
  for (Buffer* buffer : order) {
    buffer->offset = best_offset(*buffer, placed);
    placed.push_back(buffer);
    plan.bytes = std::max(plan.bytes, buffer->offset + aligned(buffer->bytes()));
  }
  for (const Buffer& buffer : buffers) {
    plan.placements.push_back({buffer.interval.begin, buffer.bytes(), buffer.offset});
    if (buffer.is_state) plan.state.push_back(plan.placements.back());
  }
  return plan;
}

}  // namespace ai::detail
