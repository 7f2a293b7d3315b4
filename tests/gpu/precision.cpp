// Case C17: f32 means f32, whatever the environment says.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "roads.hpp"

namespace {

using gpu::Road;
using support::BackwardData;
using support::Buffer;
using support::Case;
using support::ForwardData;

constexpr float kValue = 1024.5F;  // TF32 makes 1025 or 1024 of it

void fill_identity(Buffer& buffer) {
  buffer.fill(0.0F);
  for (std::int64_t i = 0; i < std::min(buffer.rows(), buffer.cols()); ++i) buffer.at(i, i) = 1.0F;
}

/// The product in f64, and the largest magnitude in it.
struct Exact {
  explicit Exact(const ForwardData& data)
      : n(data.spec.n), values(static_cast<std::size_t>(data.spec.m * n), 0.0) {
    std::vector<double> right(static_cast<std::size_t>(data.spec.k * n));
    for (std::int64_t k = 0; k < data.spec.k; ++k) {
      for (std::int64_t j = 0; j < n; ++j) {
        right[static_cast<std::size_t>(k * n + j)] = static_cast<double>(data.b.at(k, j));
      }
    }
    for (std::int64_t i = 0; i < data.spec.m; ++i) {
      double* const row = values.data() + i * n;
      for (std::int64_t k = 0; k < data.spec.k; ++k) {
        const auto left = static_cast<double>(data.a.at(i, k));
        for (std::int64_t j = 0; j < n; ++j)
          row[j] += left * right[static_cast<std::size_t>(k * n + j)];
      }
    }
    for (const double value : values) largest = std::max(largest, std::abs(value));
  }
  [[nodiscard]] auto element() const {
    return [this](std::int64_t i, std::int64_t j) {
      return values[static_cast<std::size_t>(i * n + j)];
    };
  }

  std::int64_t n;
  std::vector<double> values;
  double largest = 0.0;
};

TEST_CASE("C17: products are f32, not TF32") {
  const char* const forced = std::getenv("NVIDIA_TF32_OVERRIDE");
  MESSAGE("NVIDIA_TF32_OVERRIDE=" << std::string(forced == nullptr ? "" : forced));

  SUBCASE("1024.5 stays 1024.5 where K = 1") {
    ForwardData data(Case{1, 1, 1});
    data.a.fill(kValue);
    data.b.fill(1.0F);
    gpu::on_roads(gpu::kRoadsAndTuned, data,
                  [](const ForwardData& done, Road) { CHECK(done.y.at(0, 0) == kValue); });
  }
  SUBCASE("1024.5 stays 1024.5 beside or below an identity, in both orders and both gradients") {
    for (const std::int64_t size : {1, 16, 128, 1024}) {
      for (const bool left : {true, false}) {
        CAPTURE(left);
        const Case c{size, size, size};
        ForwardData forward(c);
        (left ? forward.a : forward.b).fill(kValue);
        fill_identity(left ? forward.b : forward.a);
        gpu::on_roads(gpu::kRoadsAndTuned, forward, [](const ForwardData& done, Road) {
          CHECK(gpu::unlike("Y", done.y, gpu::all(kValue)) == "");
        });
      }
      BackwardData backward(Case{size, size, size});
      fill_identity(backward.a);
      fill_identity(backward.b);
      backward.gy.fill(kValue);
      gpu::on_roads(gpu::kRoads, backward, [](const BackwardData& done, Road) {
        CHECK(gpu::unlike("gA", *done.ga, gpu::all(kValue)) == "");
        CHECK(gpu::unlike("gB", *done.gb, gpu::all(kValue)) == "");
      });
    }
  }
  SUBCASE("512 x 512 x 512 random values are within 1e-5 of f64") {
    for (const bool positive : {true, false}) {
      CAPTURE(positive);
      ForwardData data(Case{512, 512, 512});
      for (Buffer* buffer : {&data.a, &data.b}) {
        if (positive) buffer->for_each([](float& element) { element = std::abs(element); });
      }
      const Exact exact(data);
      // Where terms cancel, the element's own size says nothing: the largest one's does.
      const gpu::Tolerance tolerance = positive ? gpu::Tolerance{.relative = 1e-5}
                                                : gpu::Tolerance{.absolute = 1e-5 * exact.largest};
      gpu::on_roads(gpu::kRoadsAndTuned, data, [&](const ForwardData& done, Road) {
        CHECK(gpu::unlike("Y", done.y, exact.element(), tolerance) == "");
      });
    }
  }
}

TEST_CASE("C17: NVIDIA_TF32_OVERRIDE=1 changes nothing") {
  char path[4096] = {};
  REQUIRE(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
  const std::string command = std::string("NVIDIA_TF32_OVERRIDE=1 '") + path +
                              "' --test-case='C17: products are f32*' --no-colors 2>&1";
  FILE* const child = popen(command.c_str(), "r");
  REQUIRE(child != nullptr);
  std::string output;
  char part[4096];
  while (const std::size_t count = std::fread(part, 1, sizeof part, child)) {
    output.append(part, count);
  }
  const int code = pclose(child);
  CHECK_MESSAGE(code == 0, output);
  CHECK_MESSAGE(output.find("NVIDIA_TF32_OVERRIDE=1") != std::string::npos, output);
  CHECK_MESSAGE(output.find(" 1 passed | 0 failed") != std::string::npos, output);
}

}  // namespace
