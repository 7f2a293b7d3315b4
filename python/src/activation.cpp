#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "pointer.hpp"
#include "status.hpp"
#include "tensor.hpp"

namespace ge_python {
namespace {

/// In lower case and without separators: "LeakyReLU" and "leaky_relu" are one name.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_' && c != '-') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

constexpr int kKinds = static_cast<int>(ai::ActKind::Tanh) + 1;

std::string known_names() {
  std::string names;
  for (int i = 0; i < kKinds; ++i) {
    if (i > 0) names += i + 1 == kKinds ? " or " : ", ";
    names += plain(ai::to_string(static_cast<ai::ActKind>(i)));
  }
  return names;
}

}  // namespace

ai::ActKind activation_of(nb::handle object) {
  if (object.is_none()) return ai::ActKind::None;
  if (!PyUnicode_Check(object.ptr())) {
    ai::ActKind kind{};
    if (nb::try_cast(object, kind, false)) return kind;  // an int is no ActKind
    throw nb::type_error((std::string("act is of type ") + nb::inst_name(object).c_str() +
                          ", expected an ActKind, its name or None")
                             .c_str());
  }
  static const auto names = [] {
    std::array<std::string, kKinds> made;
    for (int i = 0; i < kKinds; ++i) {
      made[static_cast<std::size_t>(i)] = plain(ai::to_string(static_cast<ai::ActKind>(i)));
    }
    return made;
  }();
  const std::string given = text_of(object);
  const auto found = std::find(names.begin(), names.end(), plain(given));
  if (found != names.end()) return static_cast<ai::ActKind>(found - names.begin());
  raise(ai::StatusCode::Invalid, "act is \"" + given + "\", expected " + known_names());
}

}  // namespace ge_python
