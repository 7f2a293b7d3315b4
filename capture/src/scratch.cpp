#include "capture/scratch.hpp"

#include <algorithm>

namespace ai::detail {
namespace {

constexpr std::size_t kAlignment = 256;

bool same(const MemoryRange& a, const MemoryRange& b) noexcept {
  return a.begin == b.begin && a.rows == b.rows && a.width == b.width && a.pitch == b.pitch;
}

void add_once(std::vector<MemoryRange>& ranges, const MemoryRange& range) {
  if (range.empty()) return;
  for (const MemoryRange& known : ranges) {
    if (same(known, range)) return;
  }
  ranges.push_back(range);
}

bool overlaps_any(const MemoryRange& range, std::span<const MemoryRange> others) noexcept {
  return std::any_of(others.begin(), others.end(),
                     [&](const MemoryRange& other) { return overlaps(range, other); });
}

/// What the candidates of a task touch, merged.
std::vector<Interval> used_by(const Task& task) {
  std::vector<Interval> intervals;
  for (const Candidate& candidate : task.candidates) {
    for (const auto& step : candidate.steps) {
      for (const auto* ranges : {&step->reads(), &step->writes()}) {
        for (const MemoryRange& range : *ranges) intervals.push_back({range.begin, range.end()});
      }
    }
  }
  merge(intervals);
  return intervals;
}

}  // namespace

ScratchLayout::ScratchLayout(const Task& task) {
  std::vector<Interval> intervals = used_by(task);
  std::size_t end = 0;
  for (const Interval& interval : intervals) {
    const std::size_t offset = end + (interval.begin - end) % kAlignment;
    const std::size_t bytes = interval.end - interval.begin;
    plan_.placements.push_back({interval.begin, bytes, offset});
    end = offset + bytes;
  }
  plan_.bytes = (end + kAlignment - 1) / kAlignment * kAlignment;
  for (const Candidate& candidate : task.candidates) {
    for (const auto& step : candidate.steps) {
      for (const MemoryRange& range : step->state()) add_once(state_, range);
    }
  }
}

std::vector<MemoryRange> storage_between(std::span<const LoweredTask> tasks) {
  std::vector<Interval> storage;
  std::vector<std::vector<Interval>> of_tasks;
  for (const LoweredTask& lowered : tasks) {
    std::vector<Interval>& mine = of_tasks.emplace_back(used_by(lowered.task));
    std::erase_if(mine, [](const Interval& interval) {
      return !symbolic::is_symbolic(reinterpret_cast<const void*>(interval.begin));
    });
    storage.insert(storage.end(), mine.begin(), mine.end());
  }
  merge(storage);
  std::vector<std::size_t> users(storage.size(), 0);
  for (const std::vector<Interval>& mine : of_tasks) {
    int last = -1;
    for (const Interval& interval : mine) {
      const int at = find(storage, interval.begin);
      if (at != last) users[static_cast<std::size_t>(at)] += 1;
      last = at;
    }
  }
  std::vector<MemoryRange> between;
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (users[i] < 2) continue;
    between.push_back(range_of(reinterpret_cast<const void*>(storage[i].begin),
                               storage[i].end - storage[i].begin));
  }
  return between;
}

TrialOperands trial_operands(const Candidate& fallback, std::span<const MemoryRange> values) {
  const auto is_operand = [&](const MemoryRange& range) {
    return !symbolic::is_symbolic(reinterpret_cast<const void*>(range.begin)) ||
           overlaps_any(range, values);
  };
  TrialOperands operands;
  std::vector<MemoryRange> written;
  for (const auto& step : fallback.steps) {
    for (const MemoryRange& range : step->reads()) {
      if (is_operand(range) && !overlaps_any(range, written)) add_once(operands.inputs, range);
    }
    for (const MemoryRange& range : step->writes()) {
      if (is_operand(range)) add_once(operands.outputs, range);
      written.push_back(range);
    }
  }
  for (const MemoryRange& output : operands.outputs) {
    if (!overlaps_any(output, operands.inputs)) operands.fresh.push_back(output);
  }
  return operands;
}

}  // namespace ai::detail
