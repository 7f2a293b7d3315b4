// Rebinding on a GPU: results over the new pointers.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rebind_support.hpp"

namespace {

using gpu::captured;
using gpu::download;
using gpu::Floats;
using gpu::Layer;
using gpu::rebind;
using gpu::run;
using gpu::upload;
using gpu::whole_numbers;

TEST_CASE("B4: a rebind moves the input; without one the captured buffer's content counts") {
  const Layer layer;
  ai::Executable executable = captured(layer.program());
  run(executable);
  CHECK(layer.holds(Layer::kK));
  const std::size_t count = Layer::kM * Layer::kK;
  upload(layer.a, std::vector<float>(count, 1.0F));
  run(executable);
  CHECK(layer.holds(2 * Layer::kK));

  const Floats second(count, 2.0F);
  rebind(executable, {{layer.a, second.get()}});
  upload(layer.a, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
  run(executable);
  CHECK(layer.holds(4 * Layer::kK));
  CHECK(executable.operands().front().tensor.data == second.get());
  CHECK(cudaGetLastError() == cudaSuccess);
}

/// Z = A B + C + bias, Y = ReLU(Z) over whole numbers, each operand with room to be moved.
struct WholeLayer {
  static constexpr int kM = 32, kN = 64, kK = 48;
  static constexpr std::size_t kRoom = 8;
  std::vector<float> a = whole_numbers(kM * kK, 1);
  std::vector<float> b = whole_numbers(kK * kN, 2);
  std::vector<float> c = whole_numbers(kM * kN, 3, 1000);
  std::vector<float> bias = whole_numbers(kN, 4, 1000);

  [[nodiscard]] std::vector<float> expected_z() const {
    std::vector<float> z(kM * kN);
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        double sum = c[static_cast<std::size_t>(i * kN + j)] + bias[static_cast<std::size_t>(j)];
        for (int l = 0; l < kK; ++l) {
          sum += static_cast<double>(a[static_cast<std::size_t>(i * kK + l)]) *
                 b[static_cast<std::size_t>(l * kN + j)];
        }
        z[static_cast<std::size_t>(i * kN + j)] = static_cast<float>(sum);
      }
    }
    return z;
  }
};

/// The same numbers, `offset` floats into a buffer of their own.
struct Place {
  Place(const std::vector<float>& values, std::size_t offset)
      : memory(padded(values, offset)), data(memory.get() + offset) {}
  static std::vector<float> padded(const std::vector<float>& values, std::size_t offset) {
    std::vector<float> all(offset, -3.0F);
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  Floats memory;
  float* data;
};

TEST_CASE("B6: each operand may become 4-byte aligned: right results, and no error is left") {
  const WholeLayer layer;
  constexpr int kM = WholeLayer::kM, kN = WholeLayer::kN, kK = WholeLayer::kK;
  const std::vector<float> z = layer.expected_z();
  std::vector<float> y = z;
  for (float& value : y) value = std::max(value, 0.0F);
  const std::vector<float> spoiled(z.size(), std::numeric_limits<float>::quiet_NaN());
  const struct {
    const char* name;
    const std::vector<float>& values;
  } operands[] = {{"A", layer.a},       {"B", layer.b}, {"C", layer.c},
                  {"bias", layer.bias}, {"Y", spoiled}, {"Z", spoiled}};
  for (const bool with_z : {false, true}) {
    CAPTURE(with_z);
    std::vector<Place> places;
    for (const auto& operand : operands) places.emplace_back(operand.values, 0);
    ai::GemmForward call{.A = ai::make_tensor_2d(places[0].data, {kM, kK}),
                         .B = ai::make_tensor_2d(places[1].data, {kK, kN}),
                         .C = ai::make_tensor_2d(places[2].data, {kM, kN}),
                         .bias = ai::make_tensor_1d(places[3].data, kN),
                         .Y = ai::make_tensor_2d(places[4].data, {kM, kN}),
                         .attrs = {.act = ai::ActKind::ReLU, .beta = 1.0F}};
    if (with_z) call.Z = ai::make_tensor_2d(places[5].data, {kM, kN});
    const auto plan = ai::plan_forward(call);
    REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    for (std::size_t which = 0; which < (with_z ? 6U : 5U); ++which) {
      CAPTURE(operands[which].name);
      for (const std::size_t offset : {1U, 2U, 3U}) {
        CAPTURE(offset);
        ai::Executable executable = captured(program);
        run(executable);
        const Place odd(operands[which].values, offset);
        if (which < 4) {  // what is read no more must not matter
          upload(places[which].data, std::vector<float>(operands[which].values.size(),
                                                        std::numeric_limits<float>::quiet_NaN()));
        }
        upload(places[4].data, spoiled);
        rebind(executable, {{places[which].data, odd.data}});
        CHECK(cudaGetLastError() == cudaSuccess);
        run(executable);
        CHECK(cudaGetLastError() == cudaSuccess);
        CHECK(download(which == 4 ? odd.data : places[4].data, y.size()) == y);
        if (with_z) CHECK(download(which == 5 ? odd.data : places[5].data, z.size()) == z);
        // And back, in place: an operand may always be aligned better.
        upload(places[which].data, operands[which].values);
        rebind(executable, {{odd.data, places[which].data}});
        run(executable);
        CHECK(download(places[4].data, y.size()) == y);
      }
    }
  }
}

TEST_CASE("two buffers change places in one call") {
  const Floats a(whole_numbers(24 * 24, 40));
  const Floats b(whole_numbers(24 * 24, 41));
  const Floats y(24 * 24, 0.0F);
  const auto tensor = [](const Floats& floats) {
    return ai::make_tensor_2d(floats.get(), {24, 24});
  };
  const auto product_of = [&](const Floats& left, const Floats& right) {
    const auto plan = ai::plan_forward({.A = tensor(left), .B = tensor(right), .Y = tensor(y)});
    REQUIRE(plan.ok());
    ai::Program program;
    REQUIRE(program.add(*plan).ok());
    ai::Executable executable = captured(program);
    run(executable);
    return std::make_pair(std::move(executable), download(y.get(), 24 * 24));
  };
  const std::vector<float> swapped = product_of(b, a).second;
  auto [executable, straight] = product_of(a, b);
  CHECK(straight != swapped);
  for (int i = 0; i < 4; ++i) {
    rebind(executable, {{a.get(), b.get()}, {b.get(), a.get()}});
    run(executable);
    CHECK(download(y.get(), 24 * 24) == (i % 2 == 0 ? swapped : straight));
  }
}

}  // namespace
