#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/nvrtc_compile.hpp"

namespace ai::cuda {
namespace {

constexpr std::string_view kDigits = "0123456789";

/// The number that stands right before `unit`; 0 where there is none.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  const std::string_view before = line.substr(0, at);
  const std::size_t last = before.find_last_not_of(kDigits);
  int number = 0;
  (void)std::from_chars(before.data() + (last == std::string_view::npos ? 0 : last + 1),
                        before.data() + before.size(), number);
  return number;
}

/// What follows `words` in the line, up to `end`; empty where they are not in it.
std::string_view after(std::string_view line, std::string_view words, char end) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + words.size());
  return line.substr(0, line.find(end));
}

ResourceUse& use_of(std::vector<ResourceUse>& uses, std::string_view function) {
  for (ResourceUse& use : uses) {
    if (use.function == function) return use;
  }
  uses.push_back({.function = std::string(function)});
  return uses.back();
}

}  // namespace

std::vector<ResourceUse> read_resource_use(std::string_view log) {
  std::vector<ResourceUse> uses;
  std::string entry;       // registers are told of the kernel,
  std::string properties;  // the stack of the function named last
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (const auto name = after(line, "Compiling entry function '", '\''); !name.empty()) {
      entry = name;
      use_of(uses, entry).entry = true;
    } else if (const auto other = after(line, "Function properties for ", ' '); !other.empty()) {
      properties = other;
    } else if (line.find(" bytes stack frame") != std::string_view::npos && !properties.empty()) {
      ResourceUse& use = use_of(uses, properties);
      use.stack_bytes = number_before(line, " bytes stack frame");
      use.spill_store_bytes = number_before(line, " bytes spill stores");
      use.spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (!after(line, ": Used ", ' ').empty() && !entry.empty()) {
      ResourceUse& use = use_of(uses, entry);
      use.registers = number_before(line, " registers");
      use.shared_bytes = number_before(line, " bytes smem");
    }
  }
  return uses;
}

}  // namespace ai::cuda
