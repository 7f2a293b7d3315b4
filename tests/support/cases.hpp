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
/// The operand that Case::offset moves.
enum class Moved { All, A, B, C, Bias, Y, Z, GY, GA, GB, GC, GBias };
[[nodiscard]] inline const char* to_string(Moved moved) {
  static constexpr const char* kNames[] = {"all", "A",  "B",  "C",  "bias", "Y",
                                           "Z",   "gY", "gA", "gB", "gC",   "gBias"};
  return kNames[static_cast<std::size_t>(moved)];
}

struct Case {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  ai::BiasKind bias = ai::BiasKind::None;  ///< backward: the kind of gBias
  ai::ActKind act = ai::ActKind::None;
  bool trans_a = false;
  bool trans_b = false;
  bool with_z = false;    ///< backward: Z is given (act None may do without)
  bool with_c = false;    ///< backward: C is described, so gC may be wanted
  bool in_place = false;  ///< C is Y
  std::int64_t pad = 0;   ///< leading dimension - width of each matrix
  std::int64_t bias_stride = 1;
  std::int64_t offset = 0;  ///< floats from an aligned address to the first element of `moved`
  Moved moved = Moved::All;
  float alpha = 1.0F;
  float beta = 1.0F;
  float slope = 0.01F;
  Wanted ga = Wanted::Overwrite;
  Wanted gb = Wanted::Overwrite;
  Wanted gc = Wanted::Overwrite;     ///< only where with_c
  Wanted gbias = Wanted::Overwrite;  ///< only where bias is not None
  Values values = Values::Random;
  std::uint32_t seed = 1;

  [[nodiscard]] std::int64_t offset_of(Moved operand) const {
    return moved == Moved::All || moved == operand ? offset : 0;
  }
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
  out += " pad " + std::to_string(c.pad) + " bias_stride " + std::to_string(c.bias_stride);
  out += " offset " + std::to_string(c.offset) + " of " + to_string(c.moved);
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
/// Shaped as A, B, [M,N] or the bias, `which` of them.
inline Buffer like_a(const Case& c, Moved which) {
  return Buffer::matrix(c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k, c.pad, c.offset_of(which));
}
inline Buffer like_b(const Case& c, Moved which) {
  return Buffer::matrix(c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, c.pad, c.offset_of(which));
}
inline Buffer like_y(const Case& c, Moved which) {
  return Buffer::matrix(c.m, c.n, c.pad, c.offset_of(which));
}
inline Buffer like_bias(const Case& c, Moved which) {
  return Buffer::bias(c.bias, c.m, c.n, c.bias_stride, c.offset_of(which));
}

}  // namespace detail

/// Operands of a forward call: inputs filled, outputs poisoned (Y filled where C is in place). What
/// must not be read is poisoned too: A and B where alpha is 0, C where beta is 0.
struct ForwardData {
  explicit ForwardData(const Case& given)
      : spec(given),
        a(detail::like_a(given, Moved::A)),
        b(detail::like_b(given, Moved::B)),
        y(detail::like_y(given, Moved::Y)) {
    Random random(given.seed);
    if (given.alpha != 0.0F) {
      detail::fill_random(a, random, given.values, true);
      detail::fill_random(b, random, given.values, false);
    }
    if (given.with_c && !given.in_place) c = detail::like_y(given, Moved::C);
    if (given.with_c && given.beta != 0.0F)
      detail::fill_random(c ? *c : y, random, given.values, true);
    if (given.bias != ai::BiasKind::None) {
      bias = detail::like_bias(given, Moved::Bias);
      detail::fill_random(*bias, random, given.values, true);
    }
    if (given.with_z) z = detail::like_y(given, Moved::Z);
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
/// poisoned, since it is never read; so are A and B where alpha is 0.
struct BackwardData {
  explicit BackwardData(const Case& given)
      : spec(given),
        a(detail::like_a(given, Moved::A)),
        b(detail::like_b(given, Moved::B)),
        gy(detail::like_y(given, Moved::GY)) {
    Random random(given.seed);
    // gY is the right factor of gB and the left one of gA: exact where A and B hold one sort of
    // values and gY the other.
    const bool factors_hold_integers = given.values != Values::ExactRight;
    const Values factor_values = given.values == Values::Random ? given.values : Values::ExactLeft;
    if (given.alpha != 0.0F) {
      detail::fill_random(a, random, factor_values, factors_hold_integers);
      detail::fill_random(b, random, factor_values, factors_hold_integers);
    }
    detail::fill_random(gy, random, factor_values, !factors_hold_integers);
    if (given.with_c) c = detail::like_y(given, Moved::C);
    if (given.with_z) {
      z = detail::like_y(given, Moved::Z);
      z->for_each([&](float& element) { element = 4.0F * random.uniform(); });
    }
    const auto gradient = [&](Buffer buffer, Wanted wanted) -> std::optional<Buffer> {
      if (wanted == Wanted::No) return std::nullopt;
      if (wanted == Wanted::Accumulate) detail::fill_random(buffer, random, given.values, true);
      return buffer;
    };
    ga = gradient(detail::like_a(given, Moved::GA), given.ga);
    gb = gradient(detail::like_b(given, Moved::GB), given.gb);
    if (given.with_c) gc = gradient(detail::like_y(given, Moved::GC), given.gc);
    if (given.bias != ai::BiasKind::None) {
      gbias = gradient(detail::like_bias(given, Moved::GBias), given.gbias);
    }
  }

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

/// Whether the case has a call in that direction: an activation's gradient needs Z, some gradient
/// must be wanted, and an operand that moves must be there.
template <typename Data>
[[nodiscard]] bool asks(const Case& c);
template <>
[[nodiscard]] inline bool asks<ForwardData>(const Case& c) {
  return c.moved <= Moved::Z;
}
template <>
[[nodiscard]] inline bool asks<BackwardData>(const Case& c) {
  if (c.moved == Moved::Bias || c.moved == Moved::Y) return false;
  if (!c.with_z && c.act != ai::ActKind::None) return false;
  const bool wants_bias = c.bias != ai::BiasKind::None && c.gbias != Wanted::No;
  const bool wants_c = c.with_c && c.gc != Wanted::No;
  return c.ga != Wanted::No || c.gb != Wanted::No || wants_c || wants_bias;
}

}  // namespace support
