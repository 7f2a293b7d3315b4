#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>

#include "device_matrix.hpp"

/// Case C8: matrices with one extent in the millions, forward and backward.
namespace gpu {

/// K of the products below.
inline constexpr std::int64_t kTallK = 10;

[[nodiscard]] inline Pattern constant(double value) {
  Pattern pattern;
  pattern.constant = value;
  return pattern;
}

/// A and B of ones and a bias that counts along its axis: Y = 10 + bias.
inline void check_tall_forward(std::int64_t m, std::int64_t n, std::span<const Road> roads) {
  DeviceMatrix a(m, kTallK);
  DeviceMatrix b(kTallK, n);
  DeviceMatrix y(m, n);
  a.fill(constant(1));
  b.fill(constant(1));
  for (const ai::BiasKind kind : support::kBiasKinds) {
    const auto [rows, cols] = bias_shape(kind, m, n);
    DeviceMatrix bias(rows, cols);
    Pattern expected = constant(kTallK);
    if (kind == ai::BiasKind::Scalar) expected.constant += 5;
    if (kind == ai::BiasKind::PerN) expected.per_col = 1;
    if (kind == ai::BiasKind::PerM) expected.per_row = 1;
    Pattern values = expected;
    values.constant -= kTallK;
    bias.fill(values);
    for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
      ai::GemmForward call;
      call.A = a.tensor();
      call.B = b.tensor();
      call.Y = y.tensor();
      if (kind != ai::BiasKind::None) call.bias = bias.tensor();
      call.attrs.act = act;
      for (const Road road : roads) {
        INFO(m, "x", n, "x", kTallK, " bias ", std::string(ai::to_string(kind)), " act ",
             std::string(ai::to_string(act)), ", ", to_string(road));
        y.poison();
        const ai::Status status = carry_out(road, call);
        CHECK_MESSAGE(status.ok(), status.to_string());
        if (status.ok()) CHECK(y.difference("Y", expected) == "");
      }
    }
  }
}

/// A, B, gY (and Z) of ones: gA = n, gB = m, gC = 1/2, gBias counts what it sums.
inline void check_tall_backward(std::int64_t m, std::int64_t n, std::span<const Road> roads) {
  DeviceMatrix a(m, kTallK);
  DeviceMatrix b(kTallK, n);
  DeviceMatrix ones(m, n);  // gY, Z
  DeviceMatrix ga(m, kTallK);
  DeviceMatrix gb(kTallK, n);
  DeviceMatrix gc(m, n);
  for (DeviceMatrix* input : {&a, &b, &ones}) input->fill(constant(1));
  for (const ai::BiasKind kind : kSums) {
    const auto [rows, cols] = bias_shape(kind, m, n);
    DeviceMatrix gbias(rows, cols);
    const std::int64_t sum = (kind == ai::BiasKind::PerM ? 1 : m) *  //
                             (kind == ai::BiasKind::PerN ? 1 : n);
    for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
      ai::GemmBackward call;
      call.A = a.tensor();
      call.B = b.tensor();
      call.C = gc.tensor();  // only described
      call.gY = ones.tensor();
      if (act != ai::ActKind::None) call.Z = ones.tensor();
      call.gA = ai::Gradient(ga.tensor());
      call.gB = ai::Gradient(gb.tensor());
      call.gC = ai::Gradient(gc.tensor());
      call.gBias = ai::Gradient(gbias.tensor());
      call.attrs.act = act;
      call.attrs.beta = 0.5F;
      for (const Road road : roads) {
        INFO(m, "x", n, "x", kTallK, " gBias ", std::string(ai::to_string(kind)), " act ",
             std::string(ai::to_string(act)), ", ", to_string(road));
        for (DeviceMatrix* output : {&ga, &gb, &gc, &gbias}) output->poison();
        const ai::Status status = carry_out(road, call);
        CHECK_MESSAGE(status.ok(), status.to_string());
        if (!status.ok()) continue;
        CHECK(ga.difference("gA", constant(static_cast<double>(n))) == "");
        CHECK(gb.difference("gB", constant(static_cast<double>(m))) == "");
        CHECK(gc.difference("gC", constant(0.5)) == "");
        CHECK(gbias.difference("gBias", constant(static_cast<double>(sum))) == "");
      }
    }
  }
}

}  // namespace gpu
