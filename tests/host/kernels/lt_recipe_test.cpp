#include "kernels/lt_recipe.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <cstring>
#include <string>

#include "fake_lt.hpp"

using ai::kernels::LtRecipe;
using ai::kernels::parse_lt_recipe;

namespace {

LtRecipe example() {
  return {{fake_lt::algo_of(7), 16384}, {256, 4, 16, 128}};
}

}  // namespace

TEST_CASE("a recipe is one line of ASCII that gives the algorithm back, byte for byte") {
  LtRecipe recipe = example();
  SUBCASE("an algorithm with scratch") {}
  SUBCASE("one without") {
    recipe.algorithm.workspace_bytes = 0;
  }
  SUBCASE("one of high bytes") {
    std::memset(&recipe.algorithm.algo, 0xFE, sizeof recipe.algorithm.algo);
  }
  const std::string text = to_text(recipe);
  for (const char c : text) CHECK(std::isprint(static_cast<unsigned char>(c)) != 0);
  const auto parsed = parse_lt_recipe(text);
  REQUIRE(parsed.has_value());
  CHECK(parsed->algorithm.workspace_bytes == recipe.algorithm.workspace_bytes);
  CHECK(parsed->alignments == recipe.alignments);
  CHECK(std::memcmp(&parsed->algorithm.algo, &recipe.algorithm.algo, 64) == 0);
}

TEST_CASE("the form of a recipe, which files keep, is fixed") {
  LtRecipe recipe;
  recipe.algorithm.workspace_bytes = 1024;
  recipe.alignments = {256, 256, 16, 4};
  const unsigned char bytes[] = {0x01, 0x23, 0xAB};
  std::memcpy(&recipe.algorithm.algo, bytes, sizeof bytes);
  const std::string text = to_text(recipe);
  CHECK(text.substr(0, text.size() - 8) ==
        "lt 1024 256,256,16,4 0123ab" + std::string(122, '0') + " ");
  CHECK(text.substr(text.size() - 8) == "9f0612ee");
}

TEST_CASE("a text with any character changed, missing or doubled is no recipe") {
  const std::string text = to_text(example());
  REQUIRE(parse_lt_recipe(text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    for (const char c : {'0', '1', 'f', 'F', ' ', ',', '-', 'x', '\0', '\xC3'}) {
      if (text[i] == c) continue;
      std::string changed = text;
      changed[i] = c;
      CHECK_FALSE(parse_lt_recipe(changed));
    }
    CHECK_FALSE(parse_lt_recipe(std::string(text).erase(i, 1)));
    CHECK_FALSE(parse_lt_recipe(std::string(text).insert(i, 1, text[i])));
    CHECK_FALSE(parse_lt_recipe(text.substr(0, i)));
  }
  CHECK_FALSE(parse_lt_recipe(text + " "));
  CHECK_FALSE(parse_lt_recipe("lt 99999999999999999999999" + text.substr(8)));
  CHECK_FALSE(parse_lt_recipe({}));
  CHECK_FALSE(parse_lt_recipe("activation_grad"));
}
