#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operands.hpp"

/// One table of cases for every target: what a call looks like (Case), its operands in host memory
/// (ForwardData, BackwardData), and the calls over them or over their copies on a device.
namespace support {

enum class Wanted { No, Overwrite, Accumulate };
enum class Values {
  Random,  ///< in (-1, 1)
  /// Every f32 sum is exact. Forward: A holds 13-bit integers and B +-1; backward: A and B hold
  /// the integers and gY +-1.
  ExactLeft,
  ExactRight,  ///< the other way round
};

struct Case {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  ai::BiasKind bias = ai::BiasKind::None;  ///< backward: the kind of gBias
  ai::ActKind act = ai::ActKind::None;
  bool trans_a = false;
  bool trans_b = false;
  bool with_z = false;      ///< backward: Z is given (act None may do without)
  bool with_c = false;      ///< backward: C is described, so gC may be wanted
  bool in_place = false;    ///< C is Y
  std::int64_t pad = 0;     ///< leading dimension - width of each matrix, stride - 1 of the bias
  std::int64_t offset = 0;  ///< floats from an aligned address to each first element
  float alpha = 1.0F;
  float beta = 1.0F;
  float slope = 0.01F;
  Wanted ga = Wanted::Overwrite;
  Wanted gb = Wanted::Overwrite;
  Wanted gc = Wanted::Overwrite;     ///< only where with_c
  Wanted gbias = Wanted::Overwrite;  ///< only where bias is not None
  Values values = Values::Random;
  std::uint32_t seed = 1;

  [[nodiscard]] ai::GemmAttrs attrs() const {
    ai::GemmAttrs attrs;
    attrs.trans_a = trans_a;
    attrs.trans_b = trans_b;
    attrs.with_bias = bias != ai::BiasKind::None;
    attrs.save_z = with_z;
    attrs.act = act;
    attrs.leaky_slope = slope;
    attrs.alpha = alpha;
    attrs.beta = with_c ? beta : 0.0F;
    return attrs;
  }
};

[[nodiscard]] inline std::string to_string(const Case& c) {
  const auto wanted = [](Wanted w) {
    return w == Wanted::No ? "-" : w == Wanted::Overwrite ? "=" : "+";
  };
  std::string out = std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k);
  out += std::string(" bias ") + ai::to_string(c.bias) + " act " + ai::to_string(c.act);
  if (c.trans_a) out += " trans_a";
  if (c.trans_b) out += " trans_b";
  if (c.with_z) out += " Z";
  if (c.with_c) out += " C";
  if (c.in_place) out += " in_place";
  out += " pad " + std::to_string(c.pad) + " offset " + std::to_string(c.offset);
  out += " alpha " + std::to_string(c.alpha) + " beta " + std::to_string(c.beta);
  out += " slope " + std::to_string(c.slope);
  out += std::string(" gA") + wanted(c.ga) + " gB" + wanted(c.gb) + " gC" + wanted(c.gc) +
         " gBias" + wanted(c.gbias);
  if (c.values == Values::ExactLeft) out += " exact left";
  if (c.values == Values::ExactRight) out += " exact right";
  return out + " seed " + std::to_string(c.seed);
}

/// Where a call's operands live. `base` gives the address of a Buffer's raw() there.
struct Place {
  ai::Device device = ai::Device::CPU;
  int device_index = 0;
  std::function<void*(const Buffer&)> base = [](const Buffer& buffer) -> void* {
    return const_cast<float*>(buffer.raw().data());
  };

  [[nodiscard]] ai::Tensor tensor(const Buffer& buffer) const {
    return buffer.tensor(base(buffer), device, device_index);
  }
};

namespace detail {

inline void fill_random(Buffer& buffer, Random& random, Values values, bool is_left) {
  const bool holds_integers = (values == Values::ExactLeft) == is_left;
  buffer.for_each([&](float& element) {
    element = values == Values::Random ? random.uniform()
              : holds_integers         ? random.integer_13_bits()
                                       : random.sign();
  });
}
inline Buffer stored_a(const Case& c) {
  return Buffer::matrix(c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k, c.pad, c.offset);
}
inline Buffer stored_b(const Case& c) {
  return Buffer::matrix(c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, c.pad, c.offset);
}
inline Buffer stored_c(const Case& c) {
  return Buffer::matrix(c.m, c.n, c.pad, c.offset);
}
inline Buffer stored_bias(const Case& c) {
  return Buffer::bias(c.bias, c.m, c.n, 1 + c.pad, c.offset);
}

}  // namespace detail

/// Operands of a forward call: inputs filled, outputs poisoned (Y filled where C is in place).
struct ForwardData {
  explicit ForwardData(const Case& given)
      : spec(given),
        a(detail::stored_a(given)),
        b(detail::stored_b(given)),
        y(detail::stored_c(given)) {
    Random random(given.seed);
    detail::fill_random(a, random, given.values, true);
    detail::fill_random(b, random, given.values, false);
    if (given.with_c && given.in_place) detail::fill_random(y, random, given.values, true);
    if (given.with_c && !given.in_place) {
      c = detail::stored_c(given);
      detail::fill_random(*c, random, given.values, true);
    }
    if (given.bias != ai::BiasKind::None) {
      bias = detail::stored_bias(given);
      detail::fill_random(*bias, random, given.values, true);
    }
    if (given.with_z) z = detail::stored_c(given);
  }

  [[nodiscard]] ai::GemmForward call(const Place& place = {}) const {
    ai::GemmForward call;
    call.A = place.tensor(a);
    call.B = place.tensor(b);
    if (spec.with_c) call.C = place.tensor(spec.in_place ? y : *c);
    if (bias) call.bias = place.tensor(*bias);
    call.Y = place.tensor(y);
    if (z) call.Z = place.tensor(*z);
    call.attrs = spec.attrs();
    return call;
  }
  /// Calls f(name, buffer, is_output) for each operand that is there.
  template <typename F>
  void for_each(F&& f) {
    f("A", a, false);
    f("B", b, false);
    if (c) f("C", *c, false);
    if (bias) f("bias", *bias, false);
    f("Y", y, true);
    if (z) f("Z", *z, true);
  }

  Case spec;
  Buffer a;
  Buffer b;
  std::optional<Buffer> c;
  std::optional<Buffer> bias;
  Buffer y;
  std::optional<Buffer> z;
};

/// Operands of a backward call: inputs filled, Overwrite gradients poisoned, others filled. C is
/// poisoned: it is never read.
struct BackwardData {
  explicit BackwardData(const Case& given)
      : spec(given),
        a(detail::stored_a(given)),
        b(detail::stored_b(given)),
        gy(detail::stored_c(given)) {
    Random random(given.seed);
    // gY is the right factor of gB and the left one of gA: exact where A and B hold one sort of
    // values and gY the other.
    const bool factors_hold_integers = given.values != Values::ExactRight;
    const Values factor_values = given.values == Values::Random ? given.values : Values::ExactLeft;
    detail::fill_random(a, random, factor_values, factors_hold_integers);
    detail::fill_random(b, random, factor_values, factors_hold_integers);
    detail::fill_random(gy, random, factor_values, !factors_hold_integers);
    if (given.with_c) c = detail::stored_c(given);
    if (given.with_z) {
      z = detail::stored_c(given);
      z->for_each([&](float& element) { element = 4.0F * random.uniform(); });
    }
    const auto gradient = [&](Buffer buffer, Wanted wanted) -> std::optional<Buffer> {
      if (wanted == Wanted::No) return std::nullopt;
      if (wanted == Wanted::Accumulate) detail::fill_random(buffer, random, given.values, true);
      return buffer;
    };
    ga = gradient(detail::stored_a(given), given.ga);
    gb = gradient(detail::stored_b(given), given.gb);
    if (given.with_c) gc = gradient(detail::stored_c(given), given.gc);
    if (given.bias != ai::BiasKind::None) gbias = gradient(detail::stored_bias(given), given.gbias);
  }

  [[nodiscard]] bool has_gradient() const { return ga || gb || gc || gbias; }
  [[nodiscard]] ai::GemmBackward call(const Place& place = {}) const {
    const auto gradient = [&](const std::optional<Buffer>& buffer,
                              Wanted wanted) -> std::optional<ai::Gradient> {
      if (!buffer) return std::nullopt;
      return ai::Gradient(place.tensor(*buffer), wanted == Wanted::Accumulate
                                                     ? ai::GradMode::Accumulate
                                                     : ai::GradMode::Overwrite);
    };
    ai::GemmBackward call;
    call.A = place.tensor(a);
    call.B = place.tensor(b);
    if (c) call.C = place.tensor(*c);
    call.gY = place.tensor(gy);
    if (z) call.Z = place.tensor(*z);
    call.gA = gradient(ga, spec.ga);
    call.gB = gradient(gb, spec.gb);
    call.gC = gradient(gc, spec.gc);
    call.gBias = gradient(gbias, spec.gbias);
    call.attrs = spec.attrs();
    return call;
  }
  template <typename F>
  void for_each(F&& f) {
    f("A", a, false);
    f("B", b, false);
    if (c) f("C", *c, false);
    f("gY", gy, false);
    if (z) f("Z", *z, false);
    if (ga) f("gA", *ga, true);
    if (gb) f("gB", *gb, true);
    if (gc) f("gC", *gc, true);
    if (gbias) f("gBias", *gbias, true);
  }

  Case spec;
  Buffer a;
  Buffer b;
  std::optional<Buffer> c;
  Buffer gy;
  std::optional<Buffer> z;
  std::optional<Buffer> ga;
  std::optional<Buffer> gb;
  std::optional<Buffer> gc;
  std::optional<Buffer> gbias;
};

inline constexpr ai::ActKind kActs[] = {
    ai::ActKind::None, ai::ActKind::ReLU,    ai::ActKind::LeakyReLU,
    ai::ActKind::ELU,  ai::ActKind::GELU,    ai::ActKind::GELUTanh,
    ai::ActKind::SiLU, ai::ActKind::Sigmoid, ai::ActKind::Tanh};
inline constexpr ai::BiasKind kBiasKinds[] = {ai::BiasKind::None, ai::BiasKind::Scalar,
                                              ai::BiasKind::PerN, ai::BiasKind::PerM};

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

/// Every activation x bias kind x transposes x Z x C over each shape. A backward run takes the same
/// cases (without Z only where act is None).
[[nodiscard]] inline std::vector<Case> full_cross(const std::vector<Shape>& shapes) {
  std::vector<Case> cases;
  for (const Shape& shape : shapes) {
    for (const ai::ActKind act : kActs) {
      for (const ai::BiasKind bias : kBiasKinds) {
        for (unsigned bits = 0; bits < 16; ++bits) {
          Case c;
          c.m = shape.m;
          c.n = shape.n;
          c.k = shape.k;
          c.act = act;
          c.bias = bias;
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
[[nodiscard]] inline bool is_backward_case(const Case& c) {
  return c.with_z || c.act == ai::ActKind::None;
}

/// What the full cross leaves out: extents 0, 1 and odd, padding, offsets, alpha and beta 0, in
/// place, each subset of the gradients in each mode.
[[nodiscard]] inline std::vector<Case> edge_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](Case c) {
    c.seed = static_cast<std::uint32_t>(1000 + cases.size());
    cases.push_back(c);
  };
  for (const std::int64_t m : {0, 1, 37}) {
    for (const std::int64_t n : {0, 1, 37}) {
      for (const std::int64_t k : {0, 1, 37}) {
        for (const ai::BiasKind bias : kBiasKinds) {
          Case c{m, n, k, bias, ai::ActKind::Tanh, false, false, true, true};
          c.trans_a = (m + n + k) % 2 == 1;
          c.trans_b = bias == ai::BiasKind::PerM;
          add(c);
          c.ga = c.gb = c.gc = c.gbias = Wanted::Accumulate;
          add(c);
        }
      }
    }
  }
  for (const std::int64_t pad : {0, 1, 3, 4}) {
    for (const std::int64_t offset : {0, 1, 2, 3}) {
      for (unsigned bits = 0; bits < 4; ++bits) {
        Case c{13, 18, 11, ai::BiasKind::PerM, ai::ActKind::SiLU};
        c.bias = bits == 0 ? ai::BiasKind::PerN : bits == 1 ? ai::BiasKind::Scalar : c.bias;
        c.with_z = c.with_c = true;
        c.trans_a = (bits & 1U) != 0;
        c.trans_b = (bits & 2U) != 0;
        c.pad = pad;
        c.offset = offset;
        add(c);
        c.in_place = true;
        c.gc = Wanted::Accumulate;
        add(c);
      }
    }
  }
  for (const float alpha : {0.0F, 1.0F, -2.5F}) {
    for (const float beta : {0.0F, 1.0F, -0.25F}) {
      for (const bool accumulates : {false, true}) {
        Case c{9, 7, 21, ai::BiasKind::PerN, ai::ActKind::LeakyReLU};
        c.with_z = c.with_c = true;
        c.alpha = alpha;
        c.beta = beta;
        c.slope = -2.0F;
        if (accumulates) c.ga = c.gb = c.gc = c.gbias = Wanted::Accumulate;
        add(c);
      }
    }
  }
  for (unsigned subset = 1; subset < 81; ++subset) {
    const auto wanted = [](unsigned digit) { return static_cast<Wanted>(digit % 3); };
    Case c{6, 10, 5, ai::BiasKind::PerN, ai::ActKind::ReLU};
    c.with_z = c.with_c = true;
    c.ga = wanted(subset);
    c.gb = wanted(subset / 3);
    c.gc = wanted(subset / 9);
    c.gbias = wanted(subset / 27);
    if (subset % 2 == 1) c.act = ai::ActKind::None;
    add(c);
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

}  // namespace support
