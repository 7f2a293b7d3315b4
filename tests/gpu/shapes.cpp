// Cases C1, C2, C3, C8 and C9 on every road: empty, single, very long extents, old contents.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "roads.hpp"
#include "tall.hpp"

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

/// Empty operands need no memory.
constexpr auto kNullWhereEmpty = [](auto& call) {
  const auto clear = [](ai::Tensor& tensor) {
    if (tensor.desc.shape[0] == 0 || tensor.desc.shape[1] == 0) tensor.data = nullptr;
  };
  clear(call.A);
  clear(call.B);
  if constexpr (std::is_same_v<std::decay_t<decltype(call)>, ai::GemmForward>) {
    clear(call.Y);
    if (call.bias) clear(*call.bias);
    if (call.Z) clear(*call.Z);
  } else {
    clear(call.gY);
    if (call.Z) clear(*call.Z);
    for (auto* gradient : {&call.gA, &call.gB, &call.gC, &call.gBias}) {
      if (*gradient) clear((*gradient)->tensor);
    }
  }
};

TEST_CASE("C1: K = 0 writes act(beta C + bias), with null A and B") {
  for (const bool with_c : {false, true}) {
    Case c{16, 16, 0, BiasKind::PerN, ActKind::ReLU};
    c.with_c = with_c;
    ForwardData data(c);
    for (std::int64_t n = 0; n < 16; ++n) data.bias->at(0, n) = static_cast<float>(n - 8);
    if (with_c) data.c->fill(1.0F);
    data.y.fill(kNaN);
    const auto expected = [with_c](std::int64_t, std::int64_t n) {
      return std::max<std::int64_t>(n - (with_c ? 7 : 8), 0);
    };
    gpu::on_roads(
        gpu::kAllRoads, data,
        [&](const ForwardData& done, Road) { CHECK(unlike("Y", done.y, expected) == ""); },
        kNullWhereEmpty);
  }
}

TEST_CASE("C1: K = 0 has empty gA and gB and the usual gBias") {
  for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
    BackwardData data(Case{3, 2, 0, kind});
    data.gy.fill(2.0F);
    const float sum = kind == BiasKind::Scalar ? 12.0F : kind == BiasKind::PerN ? 6.0F : 4.0F;
    gpu::on_roads(
        gpu::kRoadsAndHost, data,
        [&](const BackwardData& done, Road) {
          CHECK(unlike("gBias", *done.gbias, all(sum)) == "");
        },
        kNullWhereEmpty);
  }
}

TEST_CASE("C2: M = 0 writes gB and gBias as zeros over NaN, or leaves them where they accumulate") {
  for (const ActKind act : {ActKind::None, ActKind::GELU}) {
    Case c{0, 2100, 2100, BiasKind::PerN, act};
    c.with_z = act != ActKind::None;
    BackwardData data(c);
    data.gb->fill(kNaN);
    data.gbias->fill(kNaN);
    gpu::on_roads(
        gpu::kRoads, data,
        [](const BackwardData& done, Road) {
          CHECK(unlike("gB", *done.gb, all(0.0F)) == "");
          CHECK(unlike("gBias", *done.gbias, all(0.0F)) == "");
        },
        kNullWhereEmpty);
  }
  Case c{0, 21, 10, BiasKind::PerN};
  c.gb = c.gbias = support::Wanted::Accumulate;
  const BackwardData data(c);
  gpu::on_roads(
      gpu::kRoadsAndHost, data,
      [&](const BackwardData& done, Road) {
        CHECK(done.gb->has_same_bits(*data.gb));
        CHECK(done.gbias->has_same_bits(*data.gbias));
      },
      kNullWhereEmpty);
}

TEST_CASE("C2: N = 0 writes gA as zeros over NaN") {
  BackwardData data(Case{2100, 0, 2100, BiasKind::PerM});
  data.ga->fill(kNaN);
  gpu::on_roads(
      gpu::kRoads, data,
      [](const BackwardData& done, Road) {
        CHECK(unlike("gA", *done.ga, all(0.0F)) == "");
        CHECK(unlike("gBias", *done.gbias, all(0.0F)) == "");
      },
      kNullWhereEmpty);
}

TEST_CASE("C2: an empty forward or backward is a valid no-op, however often it is replayed") {
  const std::vector<support::Shape> shapes = {{0, 5, 4}, {5, 0, 4}, {0, 0, 4}, {0, 0, 0}};
  for (const support::Shape& shape : shapes) {
    for (const Road road : gpu::kRoadsAndHost) {
      CAPTURE(gpu::to_string(road));
      Case c{shape.m, shape.n, shape.k, BiasKind::None, ActKind::SiLU};
      c.with_z = true;
      c.gb = c.m == 0 ? support::Wanted::No : c.gb;  // that one is written
      c.ga = c.n == 0 ? support::Wanted::No : c.ga;
      CAPTURE(support::to_string(c));
      const auto check = [&](auto call) {
        kNullWhereEmpty(call);
        (void)cudaGetLastError();
        gpu::Ride ride(road, call);
        CHECK_MESSAGE(ride.status().ok(), ride.status().to_string());
        for (int i = 0; ride.status().ok() && i < 3; ++i) {
          const ai::Status gone = ride.go();
          CHECK_MESSAGE(gone.ok(), gone.to_string());
        }
        CHECK(cudaStreamSynchronize(gpu::road_stream()) == cudaSuccess);
        CHECK(cudaGetLastError() == cudaSuccess);
      };
      ForwardData forward(c);
      BackwardData backward(c);
      gpu::DeviceCopies copies;
      REQUIRE(copies.upload(forward).ok());
      REQUIRE(copies.upload(backward).ok());
      const support::Place place = gpu::is_host(road) ? support::Place{} : copies.place();
      check(forward.call(place));
      if (support::asks<BackwardData>(c)) check(backward.call(place));
    }
  }
}

/// Runs data.call() on `road` with all outputs filled with 0, NaN and Inf before: each time the
/// same finite bits come out.
template <typename Data>
void check_old_contents(Road road, Data data) {
  CAPTURE(support::to_string(data.spec));
  CAPTURE(gpu::to_string(road));
  gpu::DeviceCopies copies;
  REQUIRE(copies.upload(data).ok());
  gpu::Ride ride(road, data.call(copies.place()));
  REQUIRE_MESSAGE(ride.status().ok(), ride.status().to_string());
  std::vector<Buffer> first;
  for (const float fill : {0.0F, kNaN, kInf}) {
    CAPTURE(fill);
    data.for_each([&](const char*, Buffer& buffer, bool is_output) {
      if (is_output) buffer.fill(fill);
    });
    REQUIRE(copies.upload(data).ok());
    const ai::Status gone = ride.go();
    REQUIRE_MESSAGE(gone.ok(), gone.to_string());
    REQUIRE(cudaStreamSynchronize(gpu::road_stream()) == cudaSuccess);
    REQUIRE(copies.download(data).ok());
    std::vector<Buffer> now;
    data.for_each([&](const char* name, Buffer& buffer, bool is_output) {
      if (!is_output) return;
      std::int64_t bad = 0;
      buffer.for_each([&](const float& element) { bad += std::isfinite(element) ? 0 : 1; });
      CHECK_MESSAGE(bad == 0, std::string(name), " has ", bad, " NaN or Inf");
      CHECK_MESSAGE(buffer.canaries_are_intact(), std::string(name));
      now.push_back(buffer);
      if (!first.empty()) {
        CHECK_MESSAGE(buffer.has_same_bits(first[now.size() - 1]),
                      gpu::unlike(name, buffer, gpu::as_in(first[now.size() - 1])));
      }
    });
    if (first.empty()) first = now;
  }
}

TEST_CASE("C3: old outputs and, with beta = 0, C never leak into results") {
  const support::Shape shapes[] = {{1, 1, 1}, {3, 5, 7}, {127, 129, 33}, {128, 128, 64}};
  for (const support::Shape& shape : shapes) {
    for (const Road road : gpu::kRoadsAndTuned) {
      for (const ActKind act : {ActKind::None, ActKind::ReLU, ActKind::SiLU}) {
        if (road == Road::Tuned && act == ActKind::None) continue;  // for the time it takes
        Case c{shape.m, shape.n, shape.k, BiasKind::PerN, act};
        c.with_z = act == ActKind::SiLU;  // ReLU without Z may be the epilogue of a library
        c.with_c = true;
        c.beta = 0.0F;
        ForwardData forward(c);
        forward.c->fill(kNaN);
        check_old_contents(road, forward);
        c.with_z = true;
        c.beta = act == ActKind::ReLU ? 0.5F : 0.0F;
        check_old_contents(road, BackwardData(c));
      }
    }
  }
}

TEST_CASE("C8: M or N may be in the hundreds of thousands, with every bias, forward and backward") {
  for (const std::int64_t extent : {65535, 65536, 655360}) {
    gpu::check_tall_forward(extent, 10, gpu::kRoads);
    gpu::check_tall_backward(extent, 10, gpu::kRoads);
    gpu::check_tall_forward(10, extent, gpu::kRoads);
    gpu::check_tall_backward(10, extent, gpu::kRoads);
  }
  for (const std::int64_t rows : {65535, 65536}) gpu::check_tall_forward(rows, 3, gpu::kRoads);
}

TEST_CASE("C9: one column and 13824 rows, forward and backward") {
  for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerM}) {
    for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
      Case c{13824, 1, 400, kind, act};
      c.with_z = act != ActKind::None;
      BackwardData data(c);
      std::vector<double> sums(400, 0.0);
      for (std::int64_t m = 0; m < c.m; ++m) {
        for (std::int64_t k = 0; k < c.k; ++k) {
          data.a.at(m, k) = static_cast<float>((m + k) % 5 - 2);
          sums[static_cast<std::size_t>(k)] += static_cast<double>(data.a.at(m, k));
        }
      }
      for (std::int64_t k = 0; k < c.k; ++k) data.b.at(k, 0) = static_cast<float>(k % 7 - 3);
      data.gy.fill(1.0F);
      if (data.z) data.z->fill(1.0F);
      gpu::on_roads(gpu::kRoads, data, [&](const BackwardData& done, Road) {
        const float sum = kind == BiasKind::Scalar ? 13824.0F : 1.0F;
        CHECK(unlike("gBias", *done.gbias, all(sum)) == "");
        CHECK(unlike("gA", *done.ga,
                     [&](std::int64_t, std::int64_t k) { return data.b.at(k, 0); }) == "");
        CHECK(unlike("gB", *done.gb, [&](std::int64_t k, std::int64_t) {
                return sums[static_cast<std::size_t>(k)];
              }) == "");
      });
    }
  }
  Case exact{13824, 1, 400, BiasKind::Scalar};
  exact.values = support::Values::ExactLeft;
  exact.ga = exact.gb = exact.gbias = support::Wanted::No;
  gpu::check_on_roads(gpu::kRoadsAndTuned, exact);
}

TEST_CASE("C9: each extent may be 1, forward and backward, with every bias") {
  for (const std::int64_t m : {1, 37}) {
    for (const std::int64_t n : {1, 37}) {
      for (const std::int64_t k : {1, 37}) {
        for (const BiasKind kind : support::kBiasKinds) {
          for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
            Case c{m, n, k, kind, act};
            c.with_z = act != ActKind::None;
            gpu::check_on_roads(gpu::kRoadsAndHost, c);
          }
        }
        Case c{m, n, k, BiasKind::PerN, ActKind::None};
        const Road tuned[] = {Road::Tuned};
        gpu::check_on_roads(tuned, c);
      }
    }
  }
}

}  // namespace
