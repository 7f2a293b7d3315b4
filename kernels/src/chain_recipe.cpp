#include "chain_recipe.hpp"

#include <charconv>
#include <cstddef>
#include <system_error>

#include "core/text.hpp"

namespace ai::kernels::chain {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kMostCluster = 16;
constexpr int kMostSlab = 8;
constexpr int kMostColumns = 16;
constexpr int kMostWindow = 255;  // registers of a thread

bool is_power_of_two(int value, int most) noexcept {
  return value >= 1 && value <= most && (value & (value - 1)) == 0;
}

bool can_be(const Shape& shape) noexcept {
  return is_power_of_two(shape.slab, kMostSlab) && is_power_of_two(shape.cluster, kMostCluster) &&
         shape.threads >= kWarp && shape.threads <= kMostThreads && shape.threads % kWarp == 0 &&
         shape.columns >= 1 && shape.columns <= kMostColumns && shape.window >= 0 &&
         shape.window <= kMostWindow;
}

}  // namespace

bool take_number(std::string_view& text, int& number) noexcept {
  if (!text.starts_with(' ')) return false;
  const auto [at, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()));
  return true;
}

std::string name_of(const Shape& shape) {
  const std::string ahead = shape.window > 0 ? text("/ahead", shape.window) : std::string();
  return text("chain/", shape.slab, "x", shape.cluster, "x", shape.threads, "x", shape.columns,
              shape.staged ? "/staged" : "", ahead);
}

std::string recipe_of(const Shape& shape) {
  return text("chain ", shape.slab, " ", shape.cluster, " ", shape.threads, " ", shape.columns, " ",
              shape.staged ? 1 : 0, " ", shape.window);
}

std::optional<Shape> parse_recipe(std::string_view recipe) {
  constexpr std::string_view kFamily = "chain";
  if (!recipe.starts_with(kFamily)) return std::nullopt;
  std::string_view rest = recipe.substr(kFamily.size());
  Shape shape;
  int staged = 0;
  for (int* number :
       {&shape.slab, &shape.cluster, &shape.threads, &shape.columns, &staged, &shape.window}) {
    if (!take_number(rest, *number)) return std::nullopt;
  }
  shape.staged = staged == 1;
  // What follows, and whatever else could be written in several ways.
  if (!can_be(shape) || recipe_of(shape) != recipe) return std::nullopt;
  return shape;
}

}  // namespace ai::kernels::chain
