#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "extent_cases.hpp"

/// The table of cases that every road to a result is held to: direct path, replay and host.
namespace support {

/// Every activation x bias kind x transposes x Z x C over each shape.
[[nodiscard]] inline std::vector<Case> full_cross(const std::vector<Shape>& shapes) {
  std::vector<Case> cases;
  for (const Shape& shape : shapes) {
    for (const ai::ActKind act : kActs) {
      for (const ai::BiasKind bias : kBiasKinds) {
        for (unsigned bits = 0; bits < 16; ++bits) {
          Case c{shape.m, shape.n, shape.k, bias, act};
          c.trans_a = (bits & 1U) != 0;
          c.trans_b = (bits & 2U) != 0;
          c.with_z = (bits & 4U) != 0;
          c.with_c = (bits & 8U) != 0;
          c.alpha = (bits & 1U) != 0 ? -0.75F : 1.0F;
          c.beta = (bits & 2U) != 0 ? 1.0F : 0.5F;
          c.seed = static_cast<std::uint32_t>(cases.size() + 1);
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

/// Leading dimensions and offsets of all operands at once; C apart and in place.
[[nodiscard]] inline std::vector<Case> stride_cases() {
  std::vector<Case> cases;
  for (const std::int64_t pad : {0, 1, 3, 4}) {
    for (const std::int64_t offset : {0, 1, 2, 3}) {
      for (unsigned bits = 0; bits < 4; ++bits) {
        for (const bool in_place : {false, true}) {
          Case c{13, 18, 11, ai::BiasKind::PerM, ai::ActKind::SiLU};
          c.bias = bits == 0 ? ai::BiasKind::PerN : bits == 1 ? ai::BiasKind::Scalar : c.bias;
          c.with_z = c.with_c = true;
          c.trans_a = (bits & 1U) != 0;
          c.trans_b = (bits & 2U) != 0;
          c.pad = pad;
          c.bias_stride = 1 + pad;
          c.offset = offset;
          c.in_place = in_place;
          if (in_place) c.gc = Wanted::Accumulate;
          c.seed = static_cast<std::uint32_t>(2000 + cases.size());
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

/// Each kind of bias at strides that have nothing to do with the matrices' padding.
[[nodiscard]] inline std::vector<Case> bias_stride_cases() {
  std::vector<Case> cases;
  for (const ai::BiasKind bias : {ai::BiasKind::Scalar, ai::BiasKind::PerN, ai::BiasKind::PerM}) {
    for (const std::int64_t stride : {1, 2, 7}) {
      for (const std::int64_t pad : {0, 3}) {
        for (const ai::ActKind act :
             {ai::ActKind::None, ai::ActKind::ReLU, ai::ActKind::GELUTanh, ai::ActKind::Tanh}) {
          for (const Wanted mode : {Wanted::Overwrite, Wanted::Accumulate}) {
            Case c{40, 56, 24, bias, act};
            c.with_z = act != ai::ActKind::None;
            c.pad = pad;
            c.bias_stride = stride;
            c.gbias = mode;
            c.seed = static_cast<std::uint32_t>(3000 + cases.size());
            cases.push_back(c);
          }
        }
      }
    }
  }
  return cases;
}

/// C13: all operands, and each alone, 4, 8 and 12 bytes past an aligned address; with leading
/// dimensions that are odd and that would let kernels load fours.
[[nodiscard]] inline std::vector<Case> alignment_cases() {
  struct Layout {
    Shape shape;
    std::int64_t pad;
  };
  constexpr Layout kLayouts[] = {
      {{127, 129, 65}, 0}, {{127, 129, 65}, 3}, {{64, 128, 32}, 0}, {{64, 128, 32}, 4}};
  std::vector<Case> cases;
  const auto add = [&cases](Case c) {
    c.seed = static_cast<std::uint32_t>(4000 + cases.size());
    c.trans_a = c.seed % 2 == 1;
    c.trans_b = c.seed / 2 % 2 == 1;
    cases.push_back(c);
  };
  for (const Layout& layout : kLayouts) {
    const Shape& shape = layout.shape;
    for (int moved = 0; moved <= static_cast<int>(Moved::GBias); ++moved) {
      for (const std::int64_t offset : {1, 2, 3}) {
        Case c{shape.m, shape.n, shape.k, ai::BiasKind::PerN, ai::ActKind::ReLU};
        c.pad = layout.pad;
        c.offset = offset;
        c.moved = static_cast<Moved>(moved);
        c.with_z = c.with_c = true;
        add(c);
        const bool moves_bias = c.moved == Moved::Bias || c.moved == Moved::GBias;
        for (const ai::BiasKind bias : {ai::BiasKind::Scalar, ai::BiasKind::PerM}) {
          c.bias = bias;
          if (moves_bias) add(c);
        }
        // As little as goes with it: other variants serve these.
        c.bias = ai::BiasKind::PerN;
        c.act = ai::ActKind::None;
        c.with_z = c.moved == Moved::Z;
        c.with_c = c.moved == Moved::C || c.moved == Moved::GC;
        add(c);
      }
    }
  }
  return cases;
}

/// alpha x beta, both signs, 0 and 1; with and without bias, activation, C in place, old gradients.
[[nodiscard]] inline std::vector<Case> scale_cases() {
  constexpr float kScales[] = {1.0F, 0.0F, 0.5F, -1.0F, -2.5F};
  constexpr Shape kShapes[] = {{9, 7, 21}, {32, 64, 16}};
  std::vector<Case> cases;
  for (const Shape& shape : kShapes) {
    for (const float alpha : kScales) {
      for (const float beta : kScales) {
        for (unsigned bits = 0; bits < 8; ++bits) {
          Case c{shape.m, shape.n, shape.k};
          c.bias = (bits & 1U) != 0 ? ai::BiasKind::PerN : ai::BiasKind::None;
          c.act = (bits & 2U) != 0 ? ai::ActKind::LeakyReLU : ai::ActKind::None;
          c.slope = -2.0F;
          c.with_z = (bits & 2U) != 0;
          c.with_c = true;
          c.in_place = (bits & 4U) != 0;
          c.alpha = alpha;
          c.beta = beta;
          if (c.in_place) c.ga = c.gb = c.gc = c.gbias = Wanted::Accumulate;
          c.seed = static_cast<std::uint32_t>(6000 + cases.size());
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

/// Each subset of the gradients, each wanted one in each mode.
[[nodiscard]] inline std::vector<Case> gradient_cases() {
  constexpr Shape kShapes[] = {{6, 10, 5}, {33, 64, 31}};
  std::vector<Case> cases;
  for (const Shape& shape : kShapes) {
    for (unsigned subset = 1; subset < 81; ++subset) {
      const auto wanted = [](unsigned digit) { return static_cast<Wanted>(digit % 3); };
      Case c{shape.m, shape.n, shape.k, ai::BiasKind::PerN, ai::ActKind::ReLU};
      if (shape.m != kShapes[0].m) c.bias = kBiasKinds[1 + subset % 3];
      c.with_z = c.with_c = true;
      c.ga = wanted(subset);
      c.gb = wanted(subset / 3);
      c.gc = wanted(subset / 9);
      c.gbias = wanted(subset / 27);
      if (subset % 2 == 1) c.act = ai::ActKind::None;
      c.seed = static_cast<std::uint32_t>(7000 + cases.size());
      cases.push_back(c);
    }
  }
  return cases;
}

/// 13-bit integers times +-1, in both orders: results are bitwise, on every variant.
[[nodiscard]] inline std::vector<Case> exact_cases(const std::vector<Shape>& shapes) {
  std::vector<Case> cases;
  for (const Shape& shape : shapes) {
    for (const Values values : {Values::ExactLeft, Values::ExactRight}) {
      for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
        for (unsigned bits = 0; bits < 4; ++bits) {
          Case c{shape.m, shape.n, shape.k, ai::BiasKind::PerN, act};
          c.trans_a = (bits & 1U) != 0;
          c.trans_b = (bits & 2U) != 0;
          c.with_z = c.with_c = true;
          c.values = values;
          c.seed = static_cast<std::uint32_t>(5000 + cases.size());
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

/// A part of the table under the name that test cases and counts go by.
struct CaseGroup {
  const char* name;
  std::vector<Case> cases;
};

/// The whole table.
[[nodiscard]] inline std::vector<CaseGroup> case_table() {
  return {
      {"cross", full_cross({{37, 29, 41}, {64, 48, 128}, {1, 255, 65}, {130, 8, 127}})},
      {"small extents", small_extent_cases()},
      {"paired extents", paired_extent_cases()},
      {"long extents", long_extent_cases()},
      {"few rows", few_row_cases()},
      {"skinny", skinny_cases()},
      {"strides", stride_cases()},
      {"bias strides", bias_stride_cases()},
      {"alignment", alignment_cases()},
      {"scales", scale_cases()},
      {"gradients", gradient_cases()},
      {"exact",
       exact_cases({{37, 29, 41}, {64, 128, 256}, {1, 33, 257}, {3, 64, 235}, {8, 5, 512}})},
  };
}
[[nodiscard]] inline std::vector<Case> cases_of(const char* group) {
  for (CaseGroup& candidate : case_table()) {
    if (std::string(group) == candidate.name) return std::move(candidate.cases);
  }
  return {};
}

}  // namespace support
