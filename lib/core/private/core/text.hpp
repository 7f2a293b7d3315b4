#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "ai/tensor.hpp"

namespace ai {

/// The pieces of a message, one after the other. Extents read [2,3], addresses 0x1f00.
namespace text_parts {

inline void append(std::string& out, std::string_view part) {
  out += part;
}
inline void append(std::string& out, const char* part) {  // or it would become an address
  out += part;
}
inline void append(std::string& out, std::int64_t part) {
  out += std::to_string(part);
}
inline void append(std::string& out, int part) {
  out += std::to_string(part);
}

template <typename Value>
void append_formatted(std::string& out, const char* format, Value value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  out += buffer.data();
}
inline void append(std::string& out, float part) {
  append_formatted(out, "%g", static_cast<double>(part));
}
inline void append(std::string& out, const void* part) {
  append_formatted(out, "0x%llx",
                   static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(part)));
}

inline void append(std::string& out, const Extents& part) {
  out += '[';
  for (int i = 0; i < part.rank(); ++i) {
    if (i > 0) out += ',';
    if (i == Extents::kMaxRank) {
      out += "...";
      break;
    }
    out += std::to_string(part[i]);
  }
  out += ']';
}

}  // namespace text_parts

/// May throw std::bad_alloc.
template <typename... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::string out;
  (text_parts::append(out, parts), ...);
  return out;
}

}  // namespace ai
