// Cases C4, C11, C19, C20 and C22 on every road: what single values become.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "roads.hpp"

namespace {

using ai::ActKind;
using ai::BiasKind;
using gpu::all;
using gpu::Road;
using gpu::unlike;
using support::BackwardData;
using support::Buffer;
using support::Case;
using support::ForwardData;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A[0,0] is `bad`, all else 1 (and the first row of B 0 where bad is Inf): row 0 of Y is NaN, the
/// others are finite.
void check_row_of_nan(std::span<const Road> roads, const Case& c, float bad) {
  CAPTURE(bad);
  ForwardData data(c);
  data.a.fill(1.0F);
  data.b.fill(1.0F);
  if (data.bias) data.bias->fill(0.5F);
  data.a.at(0, 0) = bad;
  for (std::int64_t n = 0; n < c.n && std::isinf(bad); ++n) data.b.at(0, n) = 0.0F;
  gpu::on_roads(roads, data, [&](const ForwardData& done, Road) {
    const auto expected = [&](std::int64_t row, std::int64_t col) {
      return row == 0 ? kNaN : std::isfinite(done.y.at(row, col)) ? done.y.at(row, col) : 0.0F;
    };
    CHECK(unlike("Y", done.y, expected) == "");
  });
}

TEST_CASE(
    "C4: a NaN or Inf * 0 in A spreads through its row and every activation, and no further") {
  for (const std::int64_t size : {4, 256}) {
    for (const ActKind act : support::kActs) {
      for (const BiasKind kind : {BiasKind::None, BiasKind::PerN}) {
        for (const float bad : {kNaN, kInf}) {
          // Measured, the epilogue that loses NaN is the quickest: it must not win.
          const bool is_tuned =
              act == ActKind::ReLU || (size == 256 && kind == BiasKind::None && std::isnan(bad));
          const Case c{size, size, size, kind, act};
          if (is_tuned) check_row_of_nan(gpu::kRoadsAndTuned, c, bad);
          if (!is_tuned) check_row_of_nan(gpu::kRoads, c, bad);
        }
      }
    }
  }
}

TEST_CASE("C4: a NaN in Z or gY spreads to the gradients that sum it") {
  for (const ActKind act : support::kActs) {
    if (act == ActKind::None) continue;
    for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM}) {
      for (const bool in_z : {true, false}) {
        CAPTURE(in_z);
        Case c{4, 5, 3, kind, act};
        c.with_z = c.with_c = true;
        BackwardData data(c);
        (in_z ? *data.z : data.gy).at(1, 2) = kNaN;
        const oracle::Backward expected = oracle::backward(data.call());
        gpu::on_roads(gpu::kRoadsAndHost, data, [&](const BackwardData& done, Road) {
          CHECK(support::difference("gA", expected.ga, *done.ga) == "");
          CHECK(support::difference("gB", expected.gb, *done.gb) == "");
          CHECK(support::difference("gC", expected.gc, *done.gc) == "");
          CHECK(support::difference("gBias", expected.gbias, *done.gbias) == "");
          CHECK(std::isnan(done.ga->at(1, 0)));
          CHECK(std::isnan(done.gc->at(1, 2)));
          CHECK(std::isfinite(done.ga->at(0, 0)));
        });
      }
    }
  }
}

TEST_CASE("C11: the bias runs along its own axis even where M = N") {
  for (const std::int64_t n : {8, 4}) {
    for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM}) {
      for (const std::int64_t pad : {0, 8}) {  // 8: half of a square buffer is used
        for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
          Case c{8, n, 3, kind, act};
          c.pad = pad;
          ForwardData data(c);
          data.a.fill(0.0F);
          float next = 1.0F;
          data.bias->for_each([&](float& element) { element = next++; });
          gpu::on_roads(gpu::kAllRoads, data, [&](const ForwardData& done, Road) {
            const auto expected = [&](std::int64_t row, std::int64_t col) {
              return 1 + (kind == BiasKind::PerN ? col : row);
            };
            CHECK(unlike("Y", done.y, expected) == "");
          });
        }
      }
    }
  }
}

TEST_CASE("C11: gBias sums along the axis of its bias even where M = N") {
  for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM}) {
    BackwardData data(Case{8, 8, 3, kind});
    for (std::int64_t row = 0; row < 8; ++row) {
      for (std::int64_t col = 0; col < 8; ++col) data.gy.at(row, col) = static_cast<float>(row);
    }
    gpu::on_roads(gpu::kRoadsAndHost, data, [&](const BackwardData& done, Road) {
      const auto expected = [&](std::int64_t row, std::int64_t) {
        return kind == BiasKind::PerN ? 28 : 8 * row;
      };
      CHECK(unlike("gBias", *done.gbias, expected) == "");
    });
  }
}

TEST_CASE("C11: alpha scales the product and not the bias") {
  for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
    Case c{8, 8, 8, kind};
    c.alpha = 0.5F;
    ForwardData data(c);
    for (Buffer* buffer : {&data.a, &data.b}) {
      buffer->fill(0.0F);
      for (std::int64_t i = 0; i < 8; ++i) buffer->at(i, i) = 1.0F;
    }
    data.bias->fill(2.0F);
    gpu::on_roads(gpu::kAllRoads, data, [](const ForwardData& done, Road) {
      const auto expected = [](std::int64_t row, std::int64_t col) {
        return row == col ? 2.5 : 2.0;
      };
      CHECK(unlike("Y", done.y, expected) == "");
    });
  }
}

/// z runs down the rows of A, B is 1: Y = act(z), and gA = act'(z) of a column.
ForwardData forward_of(ActKind act, const std::vector<float>& z, std::int64_t n, float slope = 0) {
  Case c{static_cast<std::int64_t>(z.size()), n, 1, BiasKind::None, act};
  c.slope = slope;
  ForwardData data(c);
  for (std::int64_t i = 0; i < c.m; ++i) data.a.at(i, 0) = z[static_cast<std::size_t>(i)];
  data.b.fill(1.0F);
  return data;
}
/// gC = act'(z), gY and beta being 1.
BackwardData backward_of(ActKind act, const std::vector<float>& z, float slope = 0) {
  Case c{static_cast<std::int64_t>(z.size()), 1, 1, BiasKind::Scalar, act};
  c.with_z = c.with_c = true;
  c.slope = slope;
  BackwardData data(c);
  for (std::int64_t i = 0; i < c.m; ++i) data.z->at(i, 0) = z[static_cast<std::size_t>(i)];
  data.b.fill(1.0F);
  data.gy.fill(1.0F);
  return data;
}

TEST_CASE("C19: GELU is the erf form and GELUTanh the tanh form, forward and backward") {
  constexpr gpu::Tolerance kTolerance{.absolute = 2e-6};
  const std::vector<float> z = {2.0F, -3.0F};
  const double erf[] = {1.9544997, -0.0040497};
  const double tanh[] = {1.9545977, -0.0036374};
  for (const ActKind act : {ActKind::GELU, ActKind::GELUTanh}) {
    const bool is_erf = act == ActKind::GELU;
    for (const std::int64_t n : {1, 128}) {
      const auto check = [&](const ForwardData& done, Road) {
        const auto expected = [&](std::int64_t row, std::int64_t) {
          return is_erf ? erf[row] : tanh[row];
        };
        CHECK(unlike("Y", done.y, expected, kTolerance) == "");
      };
      gpu::on_roads(gpu::kAllRoads, forward_of(act, z, n), check);
    }
    gpu::on_roads(gpu::kAllRoads, backward_of(act, z), [&](const BackwardData& done, Road) {
      const double slope = is_erf ? 1.0852318 : 1.0860993;
      CHECK(std::abs(static_cast<double>(done.gc->at(0, 0)) - slope) <= 2e-6);
      CHECK(done.ga->at(0, 0) == done.gc->at(0, 0));
    });
  }
}

TEST_CASE("C19: the two forms are nowhere further apart than near |z| = 2.70") {
  std::vector<float> z;
  for (int i = -600; i <= 600; ++i) z.push_back(static_cast<float>(i) / 100.0F);
  std::vector<Buffer> erf;
  const auto keep = [&](const ForwardData& done, Road) { erf.push_back(done.y); };
  gpu::on_roads(gpu::kRoadsAndHost, forward_of(ActKind::GELU, z, 8), keep);
  REQUIRE(erf.size() == std::size(gpu::kRoadsAndHost));
  std::size_t next = 0;
  gpu::on_roads(gpu::kRoadsAndHost, forward_of(ActKind::GELUTanh, z, 8),
                [&](const ForwardData& done, Road) {
                  const Buffer& other = erf[next++];
                  double gap = 0.0;
                  float where = 0.0F;
                  for (std::int64_t row = 0; row < done.y.rows(); ++row) {
                    const double here = std::abs(static_cast<double>(done.y.at(row, 7)) -
                                                 static_cast<double>(other.at(row, 7)));
                    if (here > gap) where = z[static_cast<std::size_t>(row)];
                    gap = std::max(gap, here);
                  }
                  CHECK(std::abs(gap - 4.73e-4) <= 2e-6);
                  CHECK(std::abs(std::abs(where) - 2.70F) <= 0.05F);
                });
}

TEST_CASE("C20: leaky slopes of 0 and below go by Z, forward and backward") {
  const std::vector<float> two = {-1.0F, 1.0F};
  gpu::on_roads(gpu::kAllRoads, forward_of(ActKind::LeakyReLU, two, 1, -2.0F),
                [](const ForwardData& done, Road) {
                  CHECK(done.y.at(0, 0) == 2.0F);
                  CHECK(done.y.at(1, 0) == 1.0F);
                });
  gpu::on_roads(gpu::kAllRoads, backward_of(ActKind::LeakyReLU, two, -2.0F),
                [](const BackwardData& done, Road) {
                  CHECK(done.gc->at(0, 0) == -2.0F);
                  CHECK(done.gc->at(1, 0) == 1.0F);
                  CHECK(done.ga->at(0, 0) == -2.0F);
                  CHECK(done.gbias->at(0, 0) == -1.0F);
                });
  std::vector<float> ten;
  for (int z = -5; z < 5; ++z) ten.push_back(static_cast<float>(z));
  const auto relu = [&](std::int64_t row, std::int64_t) {
    return std::max(ten[static_cast<std::size_t>(row)], 0.0F);
  };
  gpu::on_roads(gpu::kAllRoads, forward_of(ActKind::LeakyReLU, ten, 1, 0.0F),
                [&](const ForwardData& done, Road) { CHECK(unlike("Y", done.y, relu) == ""); });
  for (const float slope : {0.0F, -2.0F}) {  // the derivative at 0 is the slope
    const auto expected = [&](std::int64_t row, std::int64_t) { return row > 5 ? 1.0F : slope; };
    gpu::on_roads(gpu::kAllRoads, backward_of(ActKind::LeakyReLU, ten, slope),
                  [&](const BackwardData& done, Road) {
                    CHECK(unlike("gC", *done.gc, expected) == "");
                    CHECK(unlike("gA", *done.ga, expected) == "");
                  });
  }
}

TEST_CASE("C20: a slope that is no number is Invalid on every road") {
  for (const float slope : {kNaN, kInf}) {
    for (const Road road : gpu::kRoads) {
      CAPTURE(gpu::to_string(road));
      ForwardData forward = forward_of(ActKind::LeakyReLU, {1.0F}, 1, slope);
      BackwardData backward = backward_of(ActKind::LeakyReLU, {1.0F}, slope);
      for (const ai::Status& status : {gpu::run(road, forward), gpu::run(road, backward)}) {
        CHECK_MESSAGE(status.code() == ai::StatusCode::Invalid, status.to_string());
        CHECK_MESSAGE(status.message().find("slope") != std::string::npos, status.to_string());
      }
    }
  }
}

TEST_CASE("C22: subnormal biases keep their bits, and a bias of -0 gives +0") {
  constexpr float kSubnormal = 5.8774718e-39F;
  for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
    for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
      for (const std::int64_t n : {3, 64}) {
        // A sum starts at +0, and +0 + -0 is +0.
        for (const float bias : {kSubnormal, -0.0F}) {
          const float want = bias == 0.0F ? 0.0F : bias;
          CAPTURE(bias);
          Case c{2, n, 0, kind, act};
          ForwardData data(c);
          data.bias->fill(bias);
          gpu::on_roads(gpu::kRoadsAndHost, data, [want](const ForwardData& done, Road) {
            Buffer y = done.y;
            int wrong = 0;
            y.for_each([&](const float& element) {
              wrong += support::bits_of(element) == support::bits_of(want) ? 0 : 1;
            });
            CHECK_MESSAGE(wrong == 0, "Y[0,0] has the bits ", support::bits_of(y.at(0, 0)),
                          ", expected ", support::bits_of(want));
          });
        }
      }
    }
  }
}

TEST_CASE("C22: subnormal gradients keep their bits in gC and gBias") {
  constexpr float kSubnormal = 5.8774718e-39F;
  for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::LeakyReLU}) {
    for (const BiasKind kind : {BiasKind::PerN, BiasKind::PerM}) {
      const bool per_n = kind == BiasKind::PerN;
      Case c{per_n ? 1 : 37, per_n ? 37 : 1, 2, kind, act};
      c.with_z = c.with_c = true;
      BackwardData data(c);
      data.gy.fill(kSubnormal);
      data.z->fill(1.0F);
      gpu::on_roads(gpu::kRoadsAndHost, data, [](const BackwardData& done, Road) {
        CHECK(unlike("gC", *done.gc, all(kSubnormal)) == "");
        CHECK(unlike("gBias", *done.gbias, all(kSubnormal)) == "");
      });
    }
  }
}

}  // namespace
