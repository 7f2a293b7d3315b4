#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/text.hpp"

namespace ai::detail {

/// Whether JSON text nests deeper, as far as it is JSON. Looked at ahead, since a callback makes
/// the time of parsing quadratic in the number of an object's fields.
inline bool nests_deeper_than(int most, std::string_view text) noexcept {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (in_string) continue;
    depth += (c == '{' || c == '[' ? 1 : 0) - (c == '}' || c == ']' ? 1 : 0);
    if (depth > most) return true;
  }
  return false;
}

/// Reads the fields of an object; `wrong` says what the first bad one is.
class JsonFields {
 public:
  explicit JsonFields(const nlohmann::json& object) : object_(object) {
    if (!object.is_object()) wrong_ = text("it is ", kind(object), ", expected an object");
  }

  void get(const char* name, std::string& out) {
    if (const auto* const value = at(name, "a string", &nlohmann::json::is_string)) {
      out = value->get_ref<const std::string&>();
    }
  }
  void get(const char* name, int& out) {
    if (const auto* const value = at(name, "a count", &nlohmann::json::is_number_integer)) {
      // Also of an unsigned one: larger ones become negative or stay too large.
      const auto count = value->get<std::int64_t>();
      if (count < 0 || count > std::numeric_limits<int>::max())
        return refuse(name, *value, "a count");
      out = static_cast<int>(count);
    }
  }
  void get(const char* name, double& out) {
    if (const auto* const value = at(name, "a number", &nlohmann::json::is_number)) {
      out = value->get<double>();
      if (out < 0) refuse(name, *value, "a number that is not negative");
    }
  }
  /// null is -1.
  void get_time(const char* name, double& out) {
    out = -1;
    const auto found = object_.find(name);
    if (found == object_.end() || !found->is_null()) get(name, out);
  }
  const nlohmann::json* get_object(const char* name) {
    return at(name, "an object", &nlohmann::json::is_object);
  }

  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }

 private:
  static std::string kind(const nlohmann::json& value) {
    return value.is_number() ? value.dump() : text("of type ", value.type_name());
  }
  void refuse(const char* name, const nlohmann::json& value, const char* wanted) {
    wrong_ = text("\"", name, "\" is ", kind(value), ", expected ", wanted);
  }
  const nlohmann::json* at(const char* name, const char* wanted,
                           bool (nlohmann::json::*fits)() const noexcept) {
    if (!wrong_.empty()) return nullptr;
    const auto found = object_.find(name);
    if (found == object_.end()) {
      wrong_ = text("\"", name, "\" is missing");
      return nullptr;
    }
    if (!((*found).*fits)()) {
      refuse(name, *found, wanted);
      return nullptr;
    }
    return &*found;
  }

  const nlohmann::json& object_;
  std::string wrong_;
};

}  // namespace ai::detail
