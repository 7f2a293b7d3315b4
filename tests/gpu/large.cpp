// Cases C5, C6, D1 and the largest of C8 and D5: more than 2^31 elements or millions of rows. Up to
// 19 GiB of device memory; data is made and checked on the device, every element of it.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "device_matrix.hpp"
#include "sums.hpp"
#include "tall.hpp"

namespace {

using ai::BiasKind;
using gpu::constant;
using gpu::DeviceMatrix;
using gpu::Pattern;
using gpu::Road;

Pattern counting_rows(double first, std::int64_t period) {
  Pattern pattern = constant(first);
  pattern.per_row = 1;
  pattern.row_period = period;
  return pattern;
}

TEST_CASE("C5: an operand that spans 2^31 elements through its leading dimension") {
  for (const std::int64_t m : {134217728, 134217727}) {
    DeviceMatrix a(m, 2, 16);  // the padding stays NaN
    DeviceMatrix b(2, 1);
    DeviceMatrix y(m, 1);
    a.fill(counting_rows(0, 7), 0, 1);
    a.fill(constant(1), 1, 1);
    b.fill(constant(1));
    ai::GemmForward call;
    call.A = a.tensor();
    call.B = b.tensor();
    call.Y = y.tensor();
    for (const Road road : gpu::kRoads) {
      INFO("M = ", m, ", ", gpu::to_string(road));
      y.poison();
      const ai::Status status = gpu::carry_out(road, call);
      CHECK_MESSAGE(status.ok(), status.to_string());
      if (status.ok()) CHECK(y.difference("Y", counting_rows(1, 7)) == "");
    }
  }
}

TEST_CASE("C6: 2^31 outputs, forward") {
  constexpr std::int64_t kM = 16777216;
  constexpr std::int64_t kN = 128;
  constexpr std::int64_t kK = 32;
  DeviceMatrix a(kM, kK);
  DeviceMatrix b(kK, kN);
  DeviceMatrix bias(1, kN);
  DeviceMatrix y(kM, kN);
  a.fill(constant(1));
  b.fill(constant(1));
  Pattern expected = constant(0);
  expected.per_col = 1;
  bias.fill(expected);
  expected.constant = kK;
  for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
    ai::GemmForward call;
    call.A = a.tensor();
    call.B = b.tensor();
    call.bias = bias.tensor();
    call.Y = y.tensor();
    call.attrs.act = act;
    for (const Road road : gpu::kRoads) {
      INFO("act ", std::string(ai::to_string(act)), ", ", gpu::to_string(road));
      y.poison();
      const ai::Status status = gpu::carry_out(road, call);
      CHECK_MESSAGE(status.ok(), status.to_string());
      if (!status.ok()) continue;
      CHECK(y.difference("Y", expected) == "");
      for (const std::int64_t row : {std::int64_t{0}, kM / 2, kM - 1}) {
        CHECK(y.at(row, 127) == 32.0F + 127.0F);
      }
    }
  }
}

TEST_CASE("C6: 2^31 elements of gY, backward: gBias counts 2^24 rows, gC is written in full") {
  constexpr std::int64_t kM = 16777216;
  constexpr std::int64_t kN = 128;
  DeviceMatrix ones(kM, kN);  // gY and Z
  DeviceMatrix gc(kM, kN);
  DeviceMatrix gbias(1, kN);
  ones.fill(constant(1));
  for (const ai::ActKind act : {ai::ActKind::None, ai::ActKind::ReLU}) {
    ai::GemmBackward call = gpu::gbias_call(ones, gbias);
    for (const bool with_gc : {false, true}) {
      if (act != ai::ActKind::None) call.Z = ones.tensor();
      if (with_gc) call.C = gc.tensor();  // only described
      if (with_gc) call.gC = ai::Gradient(gc.tensor());
      call.attrs.act = act;
      call.attrs.beta = 0.5F;
      for (const Road road : gpu::kRoads) {
        INFO("act ", std::string(ai::to_string(act)), std::string(with_gc ? " with gC, " : ", "),
             gpu::to_string(road));
        gbias.poison();
        if (with_gc) gc.poison();
        const ai::Status status = gpu::carry_out(road, call);
        CHECK_MESSAGE(status.ok(), status.to_string());
        if (!status.ok()) continue;
        CHECK(gbias.difference("gBias", constant(16777216)) == "");
        if (with_gc) CHECK(gc.difference("gC", constant(0.5)) == "");
      }
    }
  }
}

TEST_CASE("C8: M or N may be over two million, with every bias, forward and backward") {
  for (const std::int64_t extent : {2097120, 2097121}) {
    gpu::check_tall_forward(extent, 10, gpu::kRoads);
    gpu::check_tall_backward(extent, 10, gpu::kRoads);
    gpu::check_tall_forward(10, extent, gpu::kRoads);
    gpu::check_tall_backward(10, extent, gpu::kRoads);
  }
  const Road tuned[] = {Road::Tuned};
  gpu::check_tall_forward(2097121, 10, tuned);
  gpu::check_tall_backward(2097121, 10, tuned);
}

void check_sum(const DeviceMatrix& gy, BiasKind kind, double expected, double tolerance) {
  const auto [rows, cols] = gpu::bias_shape(kind, gy.view().rows, gy.view().cols);
  DeviceMatrix gbias(rows, cols);
  for (const Road road : gpu::kRoads) {
    INFO(std::string(ai::to_string(kind)), ", ", gpu::to_string(road));
    gbias.poison();
    const ai::Status status = gpu::carry_out(road, gpu::gbias_call(gy, gbias));
    CHECK_MESSAGE(status.ok(), status.to_string());
    if (status.ok()) CHECK(gbias.difference("gBias", constant(expected), tolerance) == "");
  }
}

TEST_CASE("D1: counts and offsets beyond 2^31 in the bias gradient") {
  DeviceMatrix gy(16000000, 200);
  gy.fill(constant(1));
  check_sum(gy, BiasKind::PerM, 200.0, 0.0);
  check_sum(gy, BiasKind::Scalar, 3.2e9, 512.0);
  check_sum(gy, BiasKind::PerN, 16000000.0, 0.0);
  Pattern alternating = constant(1);
  alternating.alternates = true;
  gy.fill(alternating);
  check_sum(gy, BiasKind::Scalar, 0.0, 0.0);
}

TEST_CASE("D5: gBias of 65536 x 65537 can be captured, and its sums are exact") {
  gpu::check_exact_sums(65536, 65537, gpu::kRoads);
}

}  // namespace
