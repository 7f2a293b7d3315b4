#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace ai::detail {

/// FNV-1a over texts and numbers, each told from the next.
class TextHash {
 public:
  void add(std::string_view text) noexcept {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  void add(std::uint64_t number) noexcept {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
  }
  /// Sixteen hexadecimal digits. May throw std::bad_alloc.
  [[nodiscard]] std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
    return digits;
  }

 private:
  void add_byte(unsigned char byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3U; }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace ai::detail
