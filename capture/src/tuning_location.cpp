#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ai/tuning.hpp"

namespace ai {
namespace {

std::mutex& location_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::optional<std::string>& location() {                    // under location_mutex()
  static auto* const set = new std::optional<std::string>;  // outlives whatever captures at exit
  return *set;
}

std::string_view environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::string location_by_environment() {
  if (const char* const path = std::getenv("GRAPH_EXECUTOR_TUNING_CACHE")) {
    return std::string_view(path) == "off" ? std::string() : std::string(path);
  }
  // Relative ones mean nothing, says the XDG Base Directory Specification.
  if (const auto cache = environment("XDG_CACHE_HOME"); cache.starts_with('/')) {
    return std::string(cache) + "/graph_executor/tuning.json";
  }
  if (const auto home = environment("HOME"); home.starts_with('/')) {
    return std::string(home) + "/.cache/graph_executor/tuning.json";
  }
  return {};
}

}  // namespace

std::string tuning_cache_path() noexcept {
  try {
    {
      const std::lock_guard lock(location_mutex());
      if (location()) return *location();
    }
    return location_by_environment();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

Status set_tuning_cache_path(std::optional<std::string_view> path) noexcept {
  try {
    std::optional<std::string> copy;
    if (path) copy = std::string(*path);
    if (copy && copy->find('\0') != std::string::npos) {
      return {StatusCode::Invalid, "the tuning file's path has a NUL byte in it"};
    }
    const std::lock_guard lock(location_mutex());
    location() = std::move(copy);
    return {};
  } catch (const std::bad_alloc&) {
    return {StatusCode::OutOfMemory, {}};
  }
}

}  // namespace ai
