#include "chain_recipe.hpp"

#include <doctest/doctest.h>

#include "chain_support.hpp"

using namespace ai::kernels::chain;

TEST_CASE("a recipe gives its shape back") {
  for (const Shape& shape : {Shape{1, 1, 32, 1, false}, Shape{2, 8, 256, 1, false},
                             Shape{4, 16, 512, 2, true}, Shape{8, 2, 1024, 16, true, 255}}) {
    const auto back = parse_recipe(recipe_of(shape));
    REQUIRE(back.has_value());
    CHECK(chain_test::text_of(*back) == chain_test::text_of(shape));
  }
  CHECK(recipe_of({2, 8, 256, 1, true}) == "chain 2 8 256 1 1 0");
  CHECK(name_of({2, 8, 256, 1, false}) == "chain/2x8x256x1");
  CHECK(name_of({2, 8, 256, 2, true}) == "chain/2x8x256x2/staged");
  CHECK(recipe_of({1, 8, 256, 1, false, 40}) == "chain 1 8 256 1 0 40");
  CHECK(name_of({1, 8, 256, 1, false, 40}) == "chain/1x8x256x1/ahead40");
}

TEST_CASE("any other text is no recipe") {
  for (const char* text : {"",
                           "chain",
                           "chain ",
                           "chain 1 1 32 1",
                           "chain 1 1 32 1 ",
                           "chain 1 1 32 1 0 0 ",
                           "chain 1 1 32 1 0 0 0",
                           "chain 1 1 32 1 0x 0",
                           " chain 1 1 32 1 0 0",
                           "chain  1 1 32 1 0 0",
                           "chain 01 1 32 1 0 0",
                           "chain +1 1 32 1 0 0",
                           "chain -1 1 32 1 0 0",
                           "Chain 1 1 32 1 0 0",
                           "chain 1 1 32 1 2 0",
                           "chain 1 1 32 1 -1 0",
                           "chain 3 1 32 1 0 0",
                           "chain 0 1 32 1 0 0",
                           "chain 16 1 32 1 0 0",
                           "chain 1 0 32 1 0 0",
                           "chain 1 3 32 1 0 0",
                           "chain 1 32 32 1 0 0",
                           "chain 1 1 0 1 0 0",
                           "chain 1 1 33 1 0 0",
                           "chain 1 1 1056 1 0 0",
                           "chain 1 1 32 0 0 0",
                           "chain 1 1 32 17 0 0",
                           "chain 1 1 99999999999 1 0 0",
                           "lt 1 1 32 1 0 0",
                           "chain 1 1 32 1 0",
                           "chain 1 1 32 1 0 256",
                           "chain 1 1 32 1 0 -1",
                           "chain 1 1 3 2 1 0 0"}) {
    CAPTURE(text);
    CHECK(!parse_recipe(text));
  }
}
