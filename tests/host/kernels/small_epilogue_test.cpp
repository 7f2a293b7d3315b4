#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "fake_device.hpp"
#include "kernels/launch.hpp"
#include "matrix.hpp"

using ai::ActKind;
using ai::BiasKind;
using ai::kernels::Epilogue;
using ai::kernels::LaunchShape;
using ai::kernels::matrix_view;

namespace {

constexpr std::int64_t kResident = 132 * 2048;

std::shared_ptr<ai::Step> step_of(const Epilogue& epilogue, std::int64_t resident = kResident) {
  return ai::kernels::make_epilogue_step(fake_device::api(), resident, epilogue, "epilogue Y");
}

bool is_small(const Epilogue& epilogue, std::int64_t resident = kResident) {
  const auto step = step_of(epilogue, resident);
  fake_device::state().calls.clear();
  REQUIRE(step->prepare().ok());
  return fake_device::state().calls.size() == 1;  // the others take one kernel for each width
}

Epilogue over(const Matrix& raw, const Matrix& y) {
  Epilogue epilogue;
  epilogue.raw = matrix_view(raw.tensor());
  epilogue.y = matrix_view(y.tensor());
  return epilogue;
}

/// Of a matrix that is nowhere.
Epilogue sized(std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  static float memory;
  Epilogue epilogue;
  epilogue.raw = epilogue.y = {&memory, rows, cols, ld};
  return epilogue;
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

TEST_CASE("one thread an element: each has one, blocks are small, and full where there are many") {
  for (const std::int64_t enough : {1, 132}) {
    for (const std::int64_t rows : {1, 2, 3, 31, 64, 256, 65535}) {
      for (const std::int64_t cols : {1, 3, 5, 20, 63, 64, 65, 127, 129, 256, 1000, 11008}) {
        CAPTURE(enough);
        CAPTURE(rows);
        CAPTURE(cols);
        const LaunchShape shape = ai::kernels::element_shape(rows, cols, enough);
        CHECK(shape.blocks * shape.threads >= cols);
        CHECK((shape.blocks - 1) * shape.threads < cols);
        CHECK(shape.blocks_y * shape.threads_y >= rows);
        CHECK((shape.blocks_y - 1) * shape.threads_y < rows);
        CHECK(shape.threads <= cols);
        CHECK(shape.threads_y <= rows);
        const int threads = shape.threads * shape.threads_y;
        CHECK(threads <= 256);
        if (shape.blocks * shape.blocks_y > enough)
          CHECK(threads * 2 > std::min(rows * cols, 256L));
        if (threads > 64) CHECK(rows * cols > 64 * enough / 2);
      }
    }
  }
  const LaunchShape one_row = ai::kernels::element_shape(1, 256, 132);
  CHECK(one_row.blocks == 4);  // spread over four multiprocessors
  CHECK(one_row.threads == 64);
}

TEST_CASE("an epilogue of nothing but a bias and an activation over few elements is small") {
  (void)fake_device::fresh_backend();
  const Matrix raw(3, 8, 1), y(3, 8, 2), other(3, 8, 1), bias(1, 8);
  CHECK(is_small(over(raw, y)));
  CHECK(is_small(over(raw, raw)));
  Epilogue with_z = over(raw, y);
  with_z.z = with_z.raw;
  with_z.set_bias(BiasKind::PerN, {bias.data(), 8, 1});
  CHECK(is_small(with_z));

  Epilogue z_apart = with_z;
  z_apart.z = matrix_view(other.tensor());
  CHECK_FALSE(is_small(z_apart));
  Epilogue with_c = with_z;
  with_c.c = matrix_view(other.tensor());
  CHECK_FALSE(is_small(with_c));
  Epilogue without_raw = with_z;
  without_raw.raw = without_raw.z = {};
  CHECK_FALSE(is_small(without_raw));
}

TEST_CASE("an epilogue is small while the device holds all its threads at once") {
  (void)fake_device::fresh_backend();
  CHECK(is_small(sized(256, 1024, 1024)));  // 262144 of 270336 threads
  CHECK_FALSE(is_small(sized(512, 1024, 1024)));
  CHECK(is_small(sized(1, kResident, kResident)));
  CHECK_FALSE(is_small(sized(1, kResident + 1, kResident + 1)));
  CHECK(is_small(sized(65535, 3, 3)));
  CHECK(is_small(sized(65536, 3, 3)));
  // Threads beyond the last column count too.
  CHECK(is_small(sized(1056, 256, 256)));
  CHECK_FALSE(is_small(sized(1040, 257, 257)));
}

TEST_CASE("an epilogue whose indices or rows do not fit the small kernel takes the other") {
  (void)fake_device::fresh_backend();
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  CHECK(is_small(sized(2, 8, kMax - 8)));
  CHECK_FALSE(is_small(sized(2, 8, kMax - 7)));
  CHECK(is_small(sized(1, 8, std::int64_t{1} << 40)));  // of one row it has no meaning
  Epilogue y_alone = sized(2, 8, 8);
  y_alone.y.ld = kMax;
  CHECK_FALSE(is_small(y_alone));
  float element = 0.0F;
  for (const BiasKind kind : {BiasKind::PerM, BiasKind::PerN}) {
    Epilogue biased = sized(2, 2, 8);
    biased.set_bias(kind, {&element, 2, kMax - 1});
    CHECK(is_small(biased));
    biased.set_bias(kind, {&element, 2, kMax});
    CHECK_FALSE(is_small(biased));
  }
  constexpr std::int64_t kHuge = std::int64_t{1} << 30;  // no such device yet
  CHECK(is_small(sized(65535, 300, 300), kHuge));
  CHECK_FALSE(is_small(sized(65536, 300, 300), kHuge));
}

TEST_CASE("the small epilogue gives what the formula gives, at every edge") {
  (void)fake_device::fresh_backend();
  const float specials[] = {std::nanf(""), INFINITY, -INFINITY, -0.0F, 1e30F, 1e-42F};
  for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {1, 129}, {2, 3}, {3, 127}, {31, 1}, {33, 20}, {64, 65}}) {
    for (int act = 0; act <= static_cast<int>(ActKind::Tanh); ++act) {
      for (const BiasKind kind :
           {BiasKind::None, BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
        for (const bool with_z : {false, true}) {
          CAPTURE(rows);
          CAPTURE(cols);
          CAPTURE(act);
          CAPTURE(static_cast<int>(kind));
          CAPTURE(with_z);
          Matrix raw(rows, cols, 3, 1), y(rows, cols, 2);
          Matrix bias(rows, cols, 0, 0, 5);
          for (std::int64_t i = 0; i < cols && i < 6; ++i) raw.at(rows - 1, i) = specials[i];
          Matrix before(rows, cols);
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < cols; ++c) before.at(r, c) = raw.at(r, c);
          }
          Epilogue call = over(raw, y);
          call.act = static_cast<ActKind>(act);
          call.slope = 0.5F;
          if (with_z) call.z = call.raw;
          if (kind == BiasKind::Scalar) call.set_bias(kind, {bias.data(), 1, 1});
          if (kind == BiasKind::PerN) call.set_bias(kind, {bias.data(), cols, 1});
          if (kind == BiasKind::PerM) call.set_bias(kind, {bias.data(), rows, cols});
          REQUIRE(step_of(call)->enqueue({}, nullptr).ok());
          REQUIRE(fake_device::state().launches.back().small);
          bool right = raw.padding_is_untouched() && y.padding_is_untouched();
          for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < cols; ++c) {
              float z = before.at(r, c);
              if (kind == BiasKind::Scalar) z += bias.at(0, 0);
              if (kind == BiasKind::PerN) z += bias.at(0, c);
              if (kind == BiasKind::PerM) z += bias.at(r, 0);
              const float wanted = ai::activation::dispatch(
                  call.act, [&]<ActKind kAct>() { return ai::activation::apply<kAct>(z, 0.5F); });
              right = right && (std::isnan(wanted) ? std::isnan(y.at(r, c))
                                                   : bits_of(y.at(r, c)) == bits_of(wanted));
              const float kept = with_z ? z : before.at(r, c);
              right = right && (std::isnan(kept) ? std::isnan(raw.at(r, c))
                                                 : bits_of(raw.at(r, c)) == bits_of(kept));
            }
          }
          CHECK(right);
        }
      }
    }
  }
}

TEST_CASE("the small epilogue takes the addresses of the recording") {
  (void)fake_device::fresh_backend();
  const Matrix y(3, 8, 0, 0, 2);
  Matrix shifted(3, 8, 0, 1, 3);
  shifted.fill(-2.0F);
  Epilogue call = over(y, y);
  call.act = ActKind::ReLU;
  ai::AddressMap addresses;
  addresses.add(reinterpret_cast<std::uintptr_t>(y.data()), 96, shifted.data());
  REQUIRE(step_of(call)->enqueue(addresses, nullptr).ok());
  CHECK(fake_device::state().launches.back().small);
  CHECK(shifted.at(2, 7) == 0.0F);
}
