#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "ai/tuning.hpp"

namespace {

/// An environment variable, as it was before once this is gone.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const old = std::getenv(name)) old_ = old;
    put(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { put(old_ ? old_->c_str() : nullptr); }

 private:
  void put(const char* value) const {
    value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1);
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST_CASE("where the tuning file is, by the environment") {
  const struct {
    const char* ours;
    const char* cache;
    const char* home;
    std::string_view path;
  } kCases[]{
      {nullptr, nullptr, nullptr, ""},
      {nullptr, nullptr, "", ""},
      {nullptr, nullptr, "/home/a", "/home/a/.cache/graph_executor/tuning.json"},
      {nullptr, nullptr, "home/a", ""},
      {nullptr, "", "/home/a", "/home/a/.cache/graph_executor/tuning.json"},
      {nullptr, "cache", "/home/a", "/home/a/.cache/graph_executor/tuning.json"},
      {nullptr, "cache", nullptr, ""},
      {nullptr, "/cache", "/home/a", "/cache/graph_executor/tuning.json"},
      {nullptr, "/cache", nullptr, "/cache/graph_executor/tuning.json"},
      {"", "/cache", "/home/a", ""},
      {"off", "/cache", "/home/a", ""},
      {"OFF", "/cache", "/home/a", "OFF"},
      {"/there/t.json", "/cache", "/home/a", "/there/t.json"},
      {"t.json", nullptr, nullptr, "t.json"},
  };
  for (const auto& each : kCases) {
    CAPTURE(each.ours);
    CAPTURE(each.cache);
    CAPTURE(each.home);
    const Variable ours("GRAPH_EXECUTOR_TUNING_CACHE", each.ours);
    const Variable cache("XDG_CACHE_HOME", each.cache);
    const Variable home("HOME", each.home);
    CHECK(ai::tuning_cache_path() == each.path);
  }
}

TEST_CASE("the tuning file of a process can be set, set to none, and set back") {
  const Variable ours("GRAPH_EXECUTOR_TUNING_CACHE", "/by/environment");
  REQUIRE(ai::set_tuning_cache_path("/by/call").ok());
  CHECK(ai::tuning_cache_path() == "/by/call");
  REQUIRE(ai::set_tuning_cache_path("off").ok());
  CHECK(ai::tuning_cache_path() == "off");
  REQUIRE(ai::set_tuning_cache_path("").ok());
  CHECK(ai::tuning_cache_path() == "");
  const auto refused = ai::set_tuning_cache_path(std::string_view("a\0b", 3));
  CHECK(refused.code() == ai::StatusCode::Invalid);
  CHECK(ai::tuning_cache_path() == "");
  REQUIRE(ai::set_tuning_cache_path(std::nullopt).ok());
  CHECK(ai::tuning_cache_path() == "/by/environment");
}

}  // namespace
