// Cases D2, D5, D6 and D7 on every road: the bias gradient.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "device_matrix.hpp"
#include "roads.hpp"
#include "sums.hpp"

namespace {

using ai::ActKind;
using ai::BiasKind;
using gpu::all;
using gpu::DeviceMatrix;
using gpu::Pattern;
using gpu::Road;
using gpu::unlike;
using support::BackwardData;
using support::Buffer;
using support::Case;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("D2: gBias of nothing is written as 0 over NaN and needs next to no workspace") {
  for (const BiasKind kind : gpu::kSums) {
    for (const auto& [m, n] : {std::pair<int, int>{0, 37}, {37, 0}, {0, 0}}) {
      for (const ActKind act : {ActKind::None, ActKind::GELU}) {
        for (const bool alone : {true, false}) {
          Case c{m, n, 5, kind, act};
          c.with_z = act != ActKind::None;
          if (alone) c.ga = c.gb = support::Wanted::No;
          BackwardData data(c);
          data.gbias->fill(kNaN);
          gpu::on_roads(gpu::kRoadsAndHost, data, [](const BackwardData& done, Road) {
            CHECK(unlike("gBias", *done.gbias, all(0.0F)) == "");
          });
          gpu::DeviceCopies copies;
          REQUIRE(copies.upload(data).ok());
          const gpu::Ride ride(Road::Replay, data.call(copies.place()));
          REQUIRE_MESSAGE(ride.status().ok(), ride.status().to_string());
          CHECK(ride.executable()->workspace_bytes() < (std::size_t{1} << 20));
        }
      }
    }
  }
}

TEST_CASE("D5: gBias of any shape can be captured, and its sums are exact") {
  for (const std::int64_t m : {1, 2, 31, 501, 65536}) {
    for (const std::int64_t n : {1, 2, 2048, 65537}) {
      if (m * n < std::int64_t{1} << 30) gpu::check_exact_sums(m, n, gpu::kRoads);
    }
  }
}

/// Hashes of everything that `times` executions of the ride wrote, each over poison.
std::set<unsigned long long> hashes_of(gpu::Ride<ai::GemmBackward>& ride, int times,
                                       const std::vector<DeviceMatrix*>& outputs,
                                       DeviceMatrix* load) {
  const gpu::OwnStream other;
  void* device = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(times) * sizeof(unsigned long long);
  REQUIRE(cudaMalloc(&device, bytes) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(device, 0, bytes, gpu::road_stream()) == cudaSuccess);
  for (int i = 0; i < times; ++i) {
    if (load != nullptr && i % 4 == 0) {
      REQUIRE(gpu::fill_pattern(load->view(), Pattern{}, 0, load->view().cols, other.get()) ==
              cudaSuccess);
    }
    for (DeviceMatrix* output : outputs) output->poison();
    const ai::Status gone = ride.go();
    REQUIRE_MESSAGE(gone.ok(), gone.to_string());
    for (DeviceMatrix* output : outputs) {
      const gpu::DeviceView& view = output->view();
      REQUIRE(gpu::add_hash(view.data, view.rows * view.ld,
                            static_cast<unsigned long long*>(device) + i,
                            gpu::road_stream()) == cudaSuccess);
    }
  }
  std::vector<unsigned long long> hashes(static_cast<std::size_t>(times));
  REQUIRE(cudaStreamSynchronize(gpu::road_stream()) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(other.get()) == cudaSuccess);
  REQUIRE(cudaMemcpy(hashes.data(), device, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
  (void)cudaFree(device);
  return {hashes.begin(), hashes.end()};
}

void upload(const DeviceMatrix& to, Buffer from) {
  std::vector<float> packed;
  from.for_each([&](const float& element) { packed.push_back(element); });
  REQUIRE(cudaStreamSynchronize(gpu::road_stream()) == cudaSuccess);  // poisoned by then
  REQUIRE(cudaMemcpy(to.view().data, packed.data(), packed.size() * sizeof(float),
                     cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

TEST_CASE("D6: a thousand replays have one hash, under load too, and so has the direct path") {
  DeviceMatrix load(4096, 4096);
  for (const auto& [m, n] : {std::pair<int, int>{1024, 50}, {100003, 3}}) {
    for (const BiasKind kind : gpu::kSums) {
      for (const ActKind act : {ActKind::None, ActKind::SiLU}) {
        Case c{m, n, 7, kind, act};
        c.with_z = true;
        CAPTURE(support::to_string(c));
        const BackwardData data(c);
        const auto [rows, cols] = gpu::bias_shape(kind, m, n);
        DeviceMatrix a(m, 7);
        DeviceMatrix b(7, n);
        DeviceMatrix gy(m, n);
        DeviceMatrix z(m, n);
        DeviceMatrix ga(m, 7);
        DeviceMatrix gb(7, n);
        DeviceMatrix gbias(rows, cols);
        upload(a, data.a);
        upload(b, data.b);
        upload(gy, data.gy);
        upload(z, *data.z);
        ai::GemmBackward call;
        call.A = a.tensor();
        call.B = b.tensor();
        call.gY = gy.tensor();
        call.Z = z.tensor();
        call.gA = ai::Gradient(ga.tensor());
        call.gB = ai::Gradient(gb.tensor());
        call.gBias = ai::Gradient(gbias.tensor());
        call.attrs = c.attrs();
        const std::vector<DeviceMatrix*> outputs = {&ga, &gb, &gbias};
        const auto hashes = [&](Road road, int times, DeviceMatrix* busy) {
          gpu::Ride<ai::GemmBackward> ride(road, call);
          REQUIRE_MESSAGE(ride.status().ok(), ride.status().to_string());
          return hashes_of(ride, times, outputs, busy);
        };
        const auto replayed = hashes(Road::Replay, 1000, nullptr);
        CHECK(replayed.size() == 1);
        const auto check_same = [&](const std::string& what,
                                    const std::set<unsigned long long>& other) {
          INFO(what, ": ", other.size(), " hashes");
          CHECK((other == replayed));
        };
        check_same("another capture, under load", hashes(Road::Replay, 1000, &load));
        check_same("direct", hashes(Road::Direct, 200, nullptr));
        check_same("direct, under load", hashes(Road::Direct, 200, &load));
        // Recorded by the caller other candidates may serve, but always the same.
        CHECK(hashes(Road::CallersCapture, 200, &load).size() == 1);
      }
    }
  }
}

/// gBias of a gY filled with `values` (and, from row `split` on, with `later`), on every road, by
/// itself and behind an activation whose derivative is 1.
void check_sum(std::int64_t m, std::int64_t n, BiasKind kind, double values, double expected,
               double tolerance, std::int64_t split = -1, double later = 0.0) {
  DeviceMatrix gy(m, n);
  DeviceMatrix ones(m, n);
  const auto [rows, cols] = gpu::bias_shape(kind, m, n);
  DeviceMatrix gbias(rows, cols);
  Pattern pattern;
  pattern.constant = split < 0 ? values : later;
  gy.fill(pattern);
  if (split >= 0) {
    gpu::DeviceView first = gy.view();
    first.rows = split;
    pattern.constant = values;
    REQUIRE(gpu::fill_pattern(first, pattern, 0, n, gpu::road_stream()) == cudaSuccess);
  }
  Pattern sum;
  sum.constant = expected;
  Pattern one;
  one.constant = 1.0;
  ones.fill(one);
  for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
    ai::GemmBackward call = gpu::gbias_call(gy, gbias);
    call.Z = ones.tensor();
    call.attrs.act = act;
    for (const Road road : gpu::kRoadsAndTuned) {
      INFO(m, "x", n, " of ", values, ", ", std::string(ai::to_string(kind)), ", act ",
           std::string(ai::to_string(act)), ", ", gpu::to_string(road));
      gbias.poison();
      const ai::Status status = gpu::carry_out(road, call);
      CHECK_MESSAGE(status.ok(), status.to_string());
      if (status.ok()) CHECK(gbias.difference("gBias", sum, tolerance) == "");
    }
  }
}

TEST_CASE("D7: long sums keep their precision") {
  check_sum(250, 250, BiasKind::Scalar, 1.23456, 77160.0, 0.02);
  check_sum(1000000, 1, BiasKind::Scalar, 100.0, 1e8, 0.0);
  check_sum(524288, 1, BiasKind::Scalar, 1.0, 288358.40, 0.1, 262144, 0.1);
  check_sum(1000000, 1, BiasKind::Scalar, 0.1, 100000.0, 0.05);
  check_sum(std::int64_t{1} << 25, 1, BiasKind::PerN, 1.0, 33554432.0, 4.0);
}

TEST_CASE("D7: so do those along the other axis and of more than one column or row") {
  check_sum(1, 1000000, BiasKind::PerM, 100.0, 1e8, 0.0);
  check_sum(std::int64_t{1} << 25, 2, BiasKind::PerN, 1.0, 33554432.0, 4.0);
  check_sum(2, std::int64_t{1} << 25, BiasKind::PerM, 1.0, 33554432.0, 4.0);
  check_sum(1000000, 3, BiasKind::PerN, 0.1, 100000.0, 0.05);
  check_sum(524288, 3, BiasKind::PerN, 1.0, 288358.40, 0.1, 262144, 0.1);
}

}  // namespace
