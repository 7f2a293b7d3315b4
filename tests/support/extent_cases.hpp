#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "cases.hpp"

/// Cases that are about extents: nothing, one, around the sizes of tiles and warps, tall and wide.
namespace support {

inline constexpr std::array<std::int64_t, 10> kExtents = {0,   1,   2,   31,   33,
                                                          127, 128, 129, 1000, 1024};
inline constexpr std::size_t kSmallExtents = 5;  ///< the first of them

/// Every M, N and K of the small extents x every bias kind; activations, transposes, padding and
/// modes of the gradients rotate.
[[nodiscard]] inline std::vector<Case> small_extent_cases() {
  std::vector<Case> cases;
  for (std::size_t i = 0; i < kSmallExtents; ++i) {
    for (std::size_t j = 0; j < kSmallExtents; ++j) {
      for (std::size_t l = 0; l < kSmallExtents; ++l) {
        for (std::size_t bias = 0; bias < std::size(kBiasKinds); ++bias) {
          Case c{kExtents[i], kExtents[j], kExtents[l], kBiasKinds[bias]};
          c.act = kActs[(i + 2 * j + 4 * l + 3 * bias) % std::size(kActs)];
          c.trans_a = (i + j + l + bias) % 2 == 1;
          c.trans_b = (i + j + bias / 2) % 2 == 1;
          c.with_z = true;
          c.with_c = (j + l + bias) % 3 != 0;
          c.pad = (i + l) % 3 == 2 ? 3 : 0;
          if ((i + l + bias) % 2 == 1) c.ga = c.gb = c.gc = c.gbias = Wanted::Accumulate;
          c.seed = static_cast<std::uint32_t>(10000 + cases.size());
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

/// A Latin square, so that every two extents meet on every two axes; each extent on each axis meets
/// every bias kind and all transposes, padded and packed. The shift of 4 keeps the three largest
/// apart.
[[nodiscard]] inline std::vector<Case> paired_extent_cases() {
  constexpr std::size_t kCount = kExtents.size();
  std::vector<Case> cases;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t j = 0; j < kCount; ++j) {
      Case c{kExtents[i], kExtents[j], kExtents[(i + j + 4) % kCount]};
      c.bias = kBiasKinds[(i / 2 + j) % std::size(kBiasKinds)];
      c.act = kActs[(i + 4 * j) % std::size(kActs)];
      c.trans_a = (i + j / 2) % 4 / 2 == 1;
      c.trans_b = (i + j / 2) % 2 == 1;
      c.with_z = c.act != ai::ActKind::None || j % 2 == 0;
      c.with_c = (i / 4 + j / 2) % 2 == 0;
      c.pad = (i / 3 + j) % 3 == 0 ? 3 : 0;
      if ((i + j / 3) % 2 == 1) c.ga = c.gb = c.gc = c.gbias = Wanted::Accumulate;
      c.seed = static_cast<std::uint32_t>(11000 + cases.size());
      cases.push_back(c);
    }
  }
  return cases;
}

/// Cubes, and shapes with one or two large sides, in every bias kind.
[[nodiscard]] inline std::vector<Case> long_extent_cases() {
  constexpr Shape kShapes[] = {
      {1024, 2, 33},   {1024, 1, 1},     {1024, 1, 1000}, {1, 1000, 129},   {1, 1024, 1},
      {1, 1024, 1024}, {1, 1, 1024},     {2, 1, 1000},    {1000, 1000, 1},  {1024, 1000, 2},
      {128, 128, 128}, {129, 127, 128},  {127, 129, 127}, {127, 129, 1000}, {1000, 33, 1024},
      {33, 1024, 128}, {1000, 129, 128},
  };
  std::vector<Case> cases;
  const auto add = [&cases](const Shape& shape, ai::BiasKind bias) {
    const std::size_t at = cases.size();
    Case c{shape.m, shape.n, shape.k, bias, kActs[at % std::size(kActs)]};
    c.trans_a = at / 2 % 2 == 1;
    c.trans_b = at / 3 % 2 == 1;
    c.with_z = true;
    c.with_c = at % 3 == 0;
    c.pad = at % 5 == 0 ? 3 : 0;
    c.seed = static_cast<std::uint32_t>(12000 + at);
    cases.push_back(c);
  };
  for (const Shape& shape : kShapes) {
    for (const ai::BiasKind bias : kBiasKinds) add(shape, bias);
  }
  return cases;
}

/// Few rows, around where kernels for few change over to others; columns that end inside a warp, a
/// block and a vector. No C, which those kernels leave to others.
[[nodiscard]] inline std::vector<Case> few_row_cases() {
  std::vector<Case> cases;
  for (const std::int64_t m : {1, 2, 3, 4, 5, 31, 32, 33, 512, 513}) {
    for (const std::int64_t n : {1, 3, 127, 129}) {
      for (const ai::BiasKind bias : kBiasKinds) {
        const std::size_t at = cases.size();
        Case c{m, n, 7, bias, kActs[(at + at / 9) % std::size(kActs)]};
        c.with_z = at % 5 != 0;
        c.pad = at % 3 == 0 ? 3 : 0;
        c.bias_stride = at % 4 == 1 ? 2 : 1;
        if (at % 7 < 3) c.ga = c.gb = c.gbias = Wanted::Accumulate;
        c.seed = static_cast<std::uint32_t>(13000 + at);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

/// Up to 9 rows, or columns where they are turned over, of sizes that end inside vectors and
/// patches or not: the shapes of products that are fused, and outer products as gradients of B.
/// Operands are padded and moved in turns.
[[nodiscard]] inline std::vector<Case> skinny_cases() {
  struct Sides {
    std::int64_t wide, k;
  };
  constexpr Sides kSides[] = {{512, 235}, {1024, 479}, {5, 32},   {1, 256},   {8, 64},
                              {12, 128},  {64, 64},    {256, 1},  {33, 2051}, {4100, 3},
                              {20, 20},   {1024, 8},   {100, 36}, {7, 1000}};
  std::vector<Case> cases;
  for (const std::int64_t few : {1, 2, 3, 5, 8, 9}) {
    for (const Sides& sides : kSides) {
      for (unsigned bits = 0; bits < 4; ++bits) {
        const std::size_t at = cases.size();
        const bool turned = (at / 4 + at / 56) % 4 == 3;
        Case c{turned ? sides.wide : few, turned ? few : sides.wide, sides.k};
        c.bias = kBiasKinds[(at + at / 4) % std::size(kBiasKinds)];
        c.act = kActs[(at + at / 9) % std::size(kActs)];
        c.trans_a = (bits & 1U) != 0;
        c.trans_b = (bits & 2U) != 0;
        c.with_z = at % 3 != 0;
        c.with_c = at % 5 < 2;
        c.in_place = at % 5 == 1;
        c.pad = at % 7 < 3 ? 0 : at % 7 < 5 ? 4 : 3;
        c.offset = at % 6 == 5 ? 1 + static_cast<std::int64_t>(at / 6 % 3) : 0;
        c.bias_stride = at % 4 == 1 ? 2 : 1;
        c.alpha = at % 8 == 3 ? -0.75F : 1.0F;
        if (at % 2 == 1) c.ga = c.gb = c.gbias = Wanted::Accumulate;
        if (c.in_place) c.gc = Wanted::Accumulate;
        c.seed = static_cast<std::uint32_t>(14000 + at);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

}  // namespace support
