#include "kernels/lt_recipe.hpp"

#include <charconv>
#include <cstring>
#include <type_traits>

namespace ai::kernels {
namespace {

static_assert(std::is_trivially_copyable_v<cublasLtMatmulAlgo_t>);

constexpr std::string_view kFamily = "lt ";
constexpr std::size_t kAlgoBytes = sizeof(cublasLtMatmulAlgo_t);

void append_hex(std::string& text, const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
}

/// FNV-1a. A digit that went wrong may well name another algorithm, which nobody has checked.
void append_checksum(std::string& text) {
  std::uint32_t sum = 2166136261U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  const unsigned char bytes[] = {
      static_cast<unsigned char>(sum >> 24), static_cast<unsigned char>(sum >> 16),
      static_cast<unsigned char>(sum >> 8), static_cast<unsigned char>(sum)};
  text += ' ';
  append_hex(text, bytes, sizeof bytes);
}

/// Takes a number and the character behind it off the front of `text`.
template <typename Number>
bool take(std::string_view& text, char behind, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at == end || *at != behind) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()) + 1);
  return true;
}

/// Takes two hexadecimal digits off the front of `text`.
bool take_byte(std::string_view& text, unsigned char& byte) {
  if (text.size() < 2) return false;
  const auto [at, error] = std::from_chars(text.data(), text.data() + 2, byte, 16);
  if (error != std::errc() || at != text.data() + 2) return false;
  text.remove_prefix(2);
  return true;
}

}  // namespace

std::string to_text(const LtRecipe& recipe) {
  std::string text(kFamily);
  text += std::to_string(recipe.algorithm.workspace_bytes);
  char before = ' ';
  for (const std::uint32_t alignment : recipe.alignments) {
    text += before;
    text += std::to_string(alignment);
    before = ',';
  }
  text += ' ';
  unsigned char bytes[kAlgoBytes];
  std::memcpy(bytes, &recipe.algorithm.algo, sizeof bytes);
  append_hex(text, bytes, sizeof bytes);
  append_checksum(text);
  return text;
}

std::optional<LtRecipe> parse_lt_recipe(std::string_view text) {
  LtRecipe recipe;
  std::string_view rest = text;
  if (!rest.starts_with(kFamily)) return std::nullopt;
  rest.remove_prefix(kFamily.size());
  if (!take(rest, ' ', recipe.algorithm.workspace_bytes)) return std::nullopt;
  for (std::size_t i = 0; i < recipe.alignments.size(); ++i) {
    const char behind = i + 1 < recipe.alignments.size() ? ',' : ' ';
    if (!take(rest, behind, recipe.alignments[i])) return std::nullopt;
  }
  unsigned char bytes[kAlgoBytes];
  for (unsigned char& byte : bytes) {
    if (!take_byte(rest, byte)) return std::nullopt;
  }
  std::memcpy(&recipe.algorithm.algo, bytes, sizeof bytes);
  // The checksum, and whatever else could be written in several ways.
  if (to_text(recipe) != text) return std::nullopt;
  return recipe;
}

}  // namespace ai::kernels
