#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <string>

#include "pointer.hpp"
#include "status.hpp"

namespace ge_python {

namespace nb = nanobind;

/// A value of an enum, and what Python calls it.
struct NamedValue {
  const char* name;
  int value;
};

/// The value of an enum, given as such or by its name in any case. Errors call it `option`.
template <typename Enum, std::size_t count>
Enum option_of(nb::handle object, const char* option, const NamedValue (&choices)[count]) {
  if (nb::isinstance<Enum>(object)) return nb::cast<Enum>(object);
  std::string names;
  for (const NamedValue& choice : choices) {
    names += (names.empty() ? "\"" : ", \"") + std::string(choice.name) + "\"";
  }
  if (!nb::isinstance<nb::str>(object)) {
    refuse_type(option, object, "one of " + names);
  }
  const std::string given = text_of(object);
  std::string lower = given;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const NamedValue& choice : choices) {
    if (lower == choice.name) return static_cast<Enum>(choice.value);
  }
  raise(ai::StatusCode::Invalid,
        std::string(option) + " is \"" + given + "\", expected one of " + names);
}

/// A path in the file system's encoding, given as str, bytes or os.PathLike; nullopt for None.
[[nodiscard]] std::optional<std::string> path_of(const char* name, nb::handle object);

}  // namespace ge_python
