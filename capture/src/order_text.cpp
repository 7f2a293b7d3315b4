#include "capture/order_text.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <vector>

#include "capture/text_hash.hpp"

namespace ai::detail {
namespace {

constexpr int kMostLanes = 64;
constexpr std::string_view kRecipe = "lanes ";

std::string name_of(int lanes) {
  if (lanes == 0) return "unlimited";
  return std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes");
}

std::string line(const std::string& text) {
  return "order: " + text + "\n";
}

std::string with_time(const std::string& name, double us) {
  char time[32];
  std::snprintf(time, sizeof time, " %.2f us", us);
  return name + time;
}

}  // namespace

std::string order_key(std::span<const LoweredTask> tasks, const Picks& picks,
                      const StepLists& lists) {
  TextHash hash;
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

StoredChoice to_store(const TimedOrder& taken, const TimedOrder& other) {
  StoredChoice stored;
  stored.candidate = {name_of(taken.lanes), std::string(kRecipe) + std::to_string(taken.lanes)};
  stored.time_us = taken.us;
  if (other.us >= 0) stored.runner_up = name_of(other.lanes);
  stored.runner_up_us = other.us;
  return stored;
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
  std::string name = name_of(order.lanes);
  if (stored.time_us >= 0 && !stored.runner_up.empty()) {
    name =
        with_time(name, stored.time_us) + ", " + with_time(stored.runner_up, stored.runner_up_us);
  } else if (order.lanes == 0) {
    order.note = note_on_data_flow(from);
    return order;
  }
  order.note = line(name + " (" + from + ")");
  return order;
}

std::string note_on(const TimedOrder& taken, const TimedOrder& other) {
  return line(with_time(name_of(taken.lanes), taken.us) + ", " +
              with_time(name_of(other.lanes), other.us));
}

std::string note_on_data_flow(const std::string& why) {
  return line("as the data flow allows (" + why + ")");
}

}  // namespace ai::detail
