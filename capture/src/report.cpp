#include <algorithm>
#include <cstdio>

#include "capture/choice.hpp"

namespace ai::detail {
namespace {

std::string microseconds(double time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", time);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

/// Candidates as a reader wants them: the chosen one, then the measured by time, then table order.
std::vector<std::size_t> reading_order(const Choice& choice) {
  std::vector<std::size_t> order(choice.verdicts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank = [&](std::size_t i) {
    if (static_cast<int>(i) == choice.candidate) return -1.0;
    const double time = choice.verdicts[i].time_us;
    return time >= 0 ? time : 1e300;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

void explain(const Task& task, const Choice& choice, std::string& text) {
  text += task.name;
  if (!choice.note.empty()) text += " (" + choice.note + ")";
  text += "\n";
  std::size_t width = 0;
  for (const Candidate& candidate : task.candidates) width = std::max(width, candidate.name.size());
  width = std::max(width, choice.runner_up.size());
  for (const std::size_t i : reading_order(choice)) {
    const Verdict& verdict = choice.verdicts[i];
    const bool chosen = static_cast<int>(i) == choice.candidate;
    std::string line = chosen ? "  * " : "    ";
    line += padded(task.candidates[i].name, width);
    if (verdict.time_us >= 0) line += "  " + microseconds(verdict.time_us);
    if (!verdict.remark.empty()) line += "  " + verdict.remark;
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (!chosen || choice.runner_up.empty()) continue;
    text += "    " + padded(choice.runner_up, width);
    if (choice.runner_up_us >= 0) text += "  " + microseconds(choice.runner_up_us);
    text += "  the runner-up\n";
  }
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string explain(std::span<const LoweredTask> tasks, std::span<const Choice> choices) {
  std::string text;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!tasks[i].fixed) explain(tasks[i].task, choices[i], text);
  }
  return text;
}

std::string dot(std::span<const Node> nodes) {
  std::string text = "digraph executable {\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    text += "  n" + std::to_string(i) + " [label=\"" + escaped(nodes[i].name) + "\\n" +
            escaped(nodes[i].kind) + "\"];\n";
    for (const int before : nodes[i].depends_on) {
      text += "  n" + std::to_string(before) + " -> n" + std::to_string(i) + ";\n";
    }
  }
  return text + "}\n";
}

}  // namespace ai::detail
