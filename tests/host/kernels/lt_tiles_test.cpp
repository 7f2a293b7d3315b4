#include <doctest/doctest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "lt_support.hpp"

using namespace lt_test;
using ai::kernels::tiles_of;
using ai::kernels::within_span;

namespace {

/// The elements that an operand's part covers, as a mark in a map of the whole.
void mark(std::vector<int>& marks, const ai::kernels::MatrixView& part, const float* base,
          std::int64_t ld) {
  for (std::int64_t r = 0; r < part.rows; ++r) {
    for (std::int64_t c = 0; c < part.cols; ++c) {
      ++marks[static_cast<std::size_t>(part.data - base + r * ld + c)];
    }
  }
}

std::int64_t span(const ai::kernels::MatrixView& view) {
  return view.rows * view.ld;
}

}  // namespace

TEST_CASE(
    "tiles keep every operand within the span and cover the result once a slice of k [C5][C6]") {
  for (const bool trans_l : {false, true}) {
    for (const bool trans_r : {false, true}) {
      for (const float beta : {0.0F, 2.0F}) {
        for (const std::int64_t limit : {5000, 700, 300}) {
          CAPTURE(trans_l);
          CAPTURE(trans_r);
          CAPTURE(limit);
          constexpr std::int64_t kM = 70, kN = 130, kK = 90;
          const Matrix l = trans_l ? Matrix(kK, kM, 5) : Matrix(kM, kK, 5);
          const Matrix r = trans_r ? Matrix(kN, kK, 5) : Matrix(kK, kN, 5);
          Matrix c(kM, kN, 7), d(kM, kN, 3), whole(kM, kN, 3);
          Product product = product_of(l, r, d);
          product.trans_l = trans_l;
          product.trans_r = trans_r;
          product.beta = beta;
          if (beta != 0.0F) product.c = matrix_view(c.tensor());
          CHECK_FALSE(within_span(product, limit));

          const std::vector<Product> tiles = tiles_of(product, limit);
          CHECK(tiles.size() > 1);
          CHECK(ai::kernels::tile_count(product, limit) == static_cast<std::int64_t>(tiles.size()));
          std::vector<int> marks(static_cast<std::size_t>(kM * (kN + 3)));
          Fixture f;
          for (const Product& tile : tiles) {
            CHECK(span(tile.l) <= limit);
            CHECK(span(tile.r) <= limit);
            CHECK(span(tile.d) <= limit);
            if (tile.beta != 0.0F) CHECK(span(tile.c) <= limit);
            if (tile.c.data != tile.d.data) mark(marks, tile.d, d.data(), kN + 3);
            REQUIRE(f.step({.product = tile})->enqueue({}, nullptr).ok());
          }
          product.d = matrix_view(whole.tensor());
          REQUIRE(f.step({.product = product})->enqueue({}, nullptr).ok());
          bool right = d.padding_is_untouched();
          for (std::int64_t m = 0; m < kM; ++m) {
            for (std::int64_t n = 0; n < kN; ++n) {
              right = right && marks[static_cast<std::size_t>(m * (kN + 3) + n)] == 1;
              right = right && d.at(m, n) == whole.at(m, n);
            }
          }
          CHECK(right);
        }
      }
    }
  }
}

TEST_CASE("the limit is 2^31 elements, padding included [C5]") {
  float* at = nullptr;
  const auto tall = [&](std::int64_t rows) {
    return Product{.l = {at, rows, 2, 16}, .r = {at, 2, 1, 1}, .c = {}, .d = {at, rows, 1, 1}};
  };
  CHECK(within_span(tall(134217727)));
  CHECK_FALSE(within_span(tall(134217728)));
  CHECK(tiles_of(tall(134217728)).size() == 2);
  CHECK(ai::kernels::tile_count(tall(134217728)) == 2);
  CHECK(ai::kernels::tile_count(tall(134217727)) == 1);
}

namespace {

/// The task of [rows,2] [2,1] with A in rows of `ld`, anywhere; a fake cuBLASLt does not touch it.
ai::Result<std::vector<ai::Task>> lower_tall(ai::Backend& backend, std::int64_t rows,
                                             std::int64_t ld) {
  fake_lt::state().computes = false;
  auto* at = reinterpret_cast<float*>(std::uintptr_t{1} << 40);
  const auto tensor = [&](float* data, std::int64_t m, std::int64_t n, std::int64_t pitch) {
    return ai::make_tensor_2d(data, {m, n}, ai::DType::F32, ai::Device::CUDA, 0, pitch);
  };
  const auto plan = ai::plan_forward({.A = tensor(at, rows, 2, ld),
                                      .B = tensor(at + rows * ld, 2, 1, 1),
                                      .Y = tensor(at + rows * ld + 64, rows, 1, 1)});
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return backend.lower({&*plan, 1});
}

}  // namespace

TEST_CASE("a product beyond the span is done in tiles, each in an algorithm of its own [C5]") {
  const auto backend = fake_device::fresh_backend();
  const auto tasks = lower_tall(*backend, 134217728, 16);
  REQUIRE(tasks.ok());
  const ai::Task& task = tasks->front();
  CHECK(fake_device::find(task, "lt_fused")->reason.find("2^31") != std::string::npos);
  const ai::Candidate& last = task.candidates.back();
  CHECK(last.name == "lt_epilogue/tiles");
  CHECK(last.steps.size() == 2);
  CHECK_FALSE(ai::depends_on(*last.steps[1], *last.steps[0]));
}

TEST_CASE("tiles take an algorithm that was tried, one without scratch where there is one [C12]") {
  const auto backend = fake_device::fresh_backend();
  const auto algorithms_of = [&] {
    const auto tasks = lower_tall(*backend, 134217728, 16);
    REQUIRE_MESSAGE(tasks.ok(), tasks.status().to_string());
    fake_lt::state().calls.clear();
    for (const auto& step : tasks->front().candidates.back().steps) {
      REQUIRE(step->enqueue({}, nullptr).ok());
    }
    std::vector<std::uint64_t> algorithms;
    for (const fake_lt::Call& call : fake_lt::state().calls) algorithms.push_back(call.algorithm);
    return algorithms;
  };
  fake_lt::state().algorithms = {{2, 1 << 20}, {1, 0}, {3, 0}};
  CHECK(algorithms_of() == std::vector<std::uint64_t>{1, 1});
  fake_lt::state().refused = {1};
  CHECK(algorithms_of() == std::vector<std::uint64_t>{2, 2});
  fake_lt::state().refused = {1, 2};
  CHECK(algorithms_of() == std::vector<std::uint64_t>{3, 3});
  fake_lt::state().refused = {1, 2, 3};
  const ai::Status none = lower_tall(*backend, 134217728, 16).status();
  CHECK(none.code() == ai::StatusCode::Unsupported);
  CHECK(none.message().find("cublasLtMatmul failed") == 0);
}

TEST_CASE("a product in too many tiles is refused before any is made [C5]") {
  const auto backend = fake_device::fresh_backend();
  const auto peak_kib = [] {
    rusage usage = {};
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  const ai::Status status =
      lower_tall(*backend, std::int64_t{1} << 24, std::int64_t{1} << 31).status();
  CHECK(status.code() == ai::StatusCode::Unsupported);
  CHECK(status.message().find("16777216 calls") != std::string::npos);
  CHECK(peak_kib() - before < 1 << 18);
}
