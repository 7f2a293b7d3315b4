// Host memory at the ends of a program: inputs that arrive, and outputs that leave, with a launch.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lifecycle_kernels.hpp"
#include "pinned.hpp"

namespace {

using ai::Tensor;
using gpu::add;
using gpu::captured;
using gpu::device_buffer;
using gpu::download;
using gpu::on_host;
using gpu::OwnStream;
using gpu::Pinned;
using gpu::PinnedLayer;
using gpu::require_ok;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool has_node_of_kind(const ai::Executable& executable, const std::string& kind) {
  return std::any_of(executable.nodes().begin(), executable.nodes().end(),
                     [&](const ai::Node& node) { return node.kind == kind; });
}

TEST_CASE("B5: a replay reads the host address, so what is written there is seen by the next one") {
  PinnedLayer pinned;
  pinned.in.fill(5.0F);
  ai::Executable executable = captured(pinned.program);
  CHECK(pinned.layer.holds(-1.0F));  // a capture copies and computes nothing
  REQUIRE(executable.nodes().size() >= 3);
  CHECK(executable.nodes().front().name == "copy_in [24,56]");
  CHECK(executable.nodes().front().kind == "memcpy");
  CHECK(executable.nodes().back().name == "copy_out [24,40]");
  CHECK(executable.nodes().back().kind == "memcpy");
  const OwnStream stream;
  for (const float value : {0.5F, 1.0F, -2.0F, 0.0F}) {
    CAPTURE(value);
    pinned.in.fill(value);
    pinned.out.fill(kNaN);
    require_ok(executable.launch(stream.get()));
    require_ok(executable.wait());
    CHECK(pinned.out.holds(PinnedLayer::result(value)));
  }
  pinned.in.fill(3.0F);
  require_ok(executable.enqueue(stream.get()));  // the same without the graph
  require_ok(executable.wait());
  CHECK(pinned.out.holds(PinnedLayer::result(3.0F)));
}

TEST_CASE("B5: the trap: host memory changed between launch and the copy changes the result") {
  PinnedLayer pinned;
  ai::Executable executable = captured(pinned.program);
  const OwnStream stream;
  pinned.in.fill(1.0F);
  require_ok(executable.launch(stream.get()));  // whatever is loaded lazily is loaded now
  require_ok(executable.wait());
  REQUIRE(gpu::enqueue_spin(200'000'000, stream.get()) == cudaSuccess);
  require_ok(executable.launch(stream.get()));
  pinned.in.fill(4.0F);  // before wait(): not allowed, and here is why
  require_ok(executable.wait());
  CHECK(pinned.out.holds(PinnedLayer::result(4.0F)));
}

// Y = leaky(alpha A B + beta C + bias) with integers and powers of two: exact in any order.
TEST_CASE("B5: alpha, beta and slope are values of the graph, not addresses in it") {
  constexpr int kM = 5, kN = 7, kK = 9;
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN), bias(kN), expected(kM * kN);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 5 % 7) - 3.0F;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 3 % 5) - 2.0F;
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 4);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) - 3.0F;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      float sum = 0.0F;
      for (int k = 0; k < kK; ++k) {
        sum += a[static_cast<std::size_t>(m * kK + k)] * b[static_cast<std::size_t>(k * kN + n)];
      }
      const auto at = static_cast<std::size_t>(m * kN + n);
      const float z = 0.5F * sum + 2.0F * c[at] + bias[static_cast<std::size_t>(n)];
      expected[at] = z > 0.0F ? z : 0.25F * z;
    }
  }
  float* const device_a = device_buffer(a);
  float* const device_b = device_buffer(b);
  float* const device_c = device_buffer(c);
  float* const device_bias = device_buffer(bias);
  float* const y = device_buffer(std::vector<float>(kM * kN, kNaN));
  for (const ai::Tuning tuning : {ai::Tuning::Off, ai::Tuning::Measure}) {
    auto alpha = std::make_unique<float>(0.5F);
    auto beta = std::make_unique<float>(2.0F);
    auto slope = std::make_unique<float>(0.25F);
    auto call = std::make_unique<ai::GemmForward>();
    call->A = ai::make_tensor_2d(device_a, {kM, kK});
    call->B = ai::make_tensor_2d(device_b, {kK, kN});
    call->C = ai::make_tensor_2d(device_c, {kM, kN});
    call->bias = ai::make_tensor_1d(device_bias, kN);
    call->Y = ai::make_tensor_2d(y, {kM, kN});
    call->attrs.act = ai::ActKind::LeakyReLU;
    call->attrs.alpha = *alpha;
    call->attrs.beta = *beta;
    call->attrs.leaky_slope = *slope;
    auto program = std::make_unique<ai::Program>();
    add(*program, *call);
    ai::Result<ai::Executable> executable =
        ai::capture(*program, {.tuning = tuning, .tuning_budget_s = 0.1});
    require_ok(executable.status());
    for (float* value : {alpha.get(), beta.get(), slope.get()}) *value = 1e30F;
    call->attrs = {.leaky_slope = kNaN, .alpha = kNaN, .beta = kNaN};
    alpha.reset();
    beta.reset();
    slope.reset();
    call.reset();
    program.reset();
    std::vector<std::unique_ptr<float>> reuse;  // what was freed is likely to be here
    for (int i = 0; i < 100; ++i) reuse.push_back(std::make_unique<float>(kNaN));

    CHECK_FALSE(has_node_of_kind(*executable, "memcpy"));
    CHECK_FALSE(has_node_of_kind(*executable, "host"));
    for (int replay = 0; replay < 3; ++replay) {
      REQUIRE(cudaMemset(y, 0xFF, kM * kN * sizeof(float)) == cudaSuccess);
      require_ok(executable->launch());
      require_ok(executable->wait());
      CHECK(download(y, kM * kN) == expected);
    }
  }
  for (float* data : {device_a, device_b, device_c, device_bias, y}) (void)cudaFree(data);
}

/// A policy of two layers over integers, so that every step has one right answer to the last bit.
struct Policy {
  static constexpr int kIn = 12, kHidden = 64, kOut = 4;
  Policy() {
    for (std::size_t i = 0; i < w1.size(); ++i) w1[i] = static_cast<float>(i * 7 % 3) - 1.0F;
    for (std::size_t i = 0; i < w2.size(); ++i) w2[i] = static_cast<float>(i * 5 % 3) - 1.0F;
    device = {device_buffer(w1), device_buffer(w2), device_buffer(std::vector<float>(kIn)),
              device_buffer(std::vector<float>(kHidden)), device_buffer(std::vector<float>(kOut))};
    const Tensor x = ai::make_tensor_2d(device[2], {1, kIn});
    const Tensor h = ai::make_tensor_2d(device[3], {1, kHidden});
    const Tensor y = ai::make_tensor_2d(device[4], {1, kOut});
    require_ok(program.copy_in(on_host(in.data(), 1, kIn), x));
    add(program, {.A = x,
                  .B = ai::make_tensor_2d(device[0], {kIn, kHidden}),
                  .Y = h,
                  .attrs = {.act = ai::ActKind::ReLU}});
    add(program, {.A = h, .B = ai::make_tensor_2d(device[1], {kHidden, kOut}), .Y = y});
    require_ok(program.copy_out(y, on_host(out.data(), 1, kOut)));
  }
  ~Policy() {
    for (float* data : device) (void)cudaFree(data);
  }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  /// What `in` must give.
  [[nodiscard]] std::vector<float> expected() const {
    std::vector<float> y(kOut, 0.0F);
    for (std::size_t j = 0; j < kHidden; ++j) {
      float h = 0.0F;
      for (std::size_t k = 0; k < kIn; ++k) h += in[k] * w1[k * kHidden + j];
      for (std::size_t n = 0; n < kOut && h > 0.0F; ++n) y[n] += h * w2[j * kOut + n];
    }
    return y;
  }

  std::vector<float> w1 = std::vector<float>(kIn * kHidden);
  std::vector<float> w2 = std::vector<float>(kHidden * kOut);
  std::vector<float*> device;
  Pinned in{kIn};
  Pinned out{kOut};
  ai::Program program;
};

void run_control_steps(cudaStream_t stream) {
  constexpr int kSteps = 1000;
  Policy policy;
  ai::Executable executable = captured(policy.program);
  std::vector<double> microseconds;
  std::vector<float> expected;
  int wrong = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < policy.in.size(); ++i) {
      policy.in[i] = static_cast<float>((step * 31 + static_cast<int>(i) * 17) % 2001 - 1000);
    }
    policy.out.fill(kNaN);
    expected = policy.expected();
    const auto start = std::chrono::steady_clock::now();
    require_ok(executable.launch(stream));
    require_ok(executable.wait());
    microseconds.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
    if (!std::equal(expected.begin(), expected.end(), policy.out.data())) ++wrong;
  }
  CHECK(wrong == 0);
  std::sort(microseconds.begin(), microseconds.end());
  MESSAGE("launch and wait of copy_in, two layers, copy_out: p50 ", microseconds[kSteps / 2],
          " us, p99 ", microseconds[kSteps * 99 / 100], " us");
}

TEST_CASE("a launch and a wait are a whole control step: 1000 steps on a stream of one's own") {
  const OwnStream stream;
  run_control_steps(stream.get());
}

TEST_CASE("a launch and a wait are a whole control step: 1000 steps on the default stream") {
  run_control_steps(nullptr);
}

TEST_CASE("replays that follow one another see each other's host memory in order") {
  const Pinned state(8, 0.0F);
  float* const x = device_buffer(std::vector<float>(8));
  float* const one = device_buffer({1.0F});
  float* const y = device_buffer(std::vector<float>(8));
  ai::Program program;  // state = state * 1 + 1
  require_ok(program.copy_in(on_host(state.data(), 8, 1), ai::make_tensor_2d(x, {8, 1})));
  add(program, {.A = ai::make_tensor_2d(x, {8, 1}),
                .B = ai::make_tensor_2d(one, {1, 1}),
                .bias = ai::make_tensor_1d(one, 1),
                .Y = ai::make_tensor_2d(y, {8, 1})});
  require_ok(program.copy_out(ai::make_tensor_2d(y, {8, 1}), on_host(state.data(), 8, 1)));
  ai::Executable executable = captured(program);
  const OwnStream stream;
  const OwnStream other;
  for (int i = 0; i < 500; ++i) {
    require_ok(executable.launch((i / 10) % 2 == 0 ? stream.get() : other.get()));
  }
  require_ok(executable.wait());
  CHECK(state.holds(500.0F));
  for (float* data : {x, one, y}) (void)cudaFree(data);
}

TEST_CASE("within a program, host memory orders copies as device memory orders kernels") {
  const Pinned first(6, 1.0F);
  const Pinned second(6, 2.0F);
  const Pinned through(6);
  float* const a = device_buffer(std::vector<float>(6));
  float* const b = device_buffer(std::vector<float>(6));
  const Tensor device_a = ai::make_tensor_2d(a, {2, 3});
  const Tensor device_b = ai::make_tensor_2d(b, {2, 3});
  ai::Program program;
  require_ok(program.copy_in(on_host(first.data(), 2, 3), device_a));
  require_ok(program.copy_out(device_a, on_host(through.data(), 2, 3)));
  require_ok(program.copy_in(on_host(through.data(), 2, 3), device_b));
  require_ok(program.copy_in(on_host(second.data(), 2, 3), device_a));
  require_ok(program.copy_out(device_a, on_host(through.data(), 2, 3)));
  ai::Executable executable = captured(program);
  REQUIRE(executable.nodes().size() == 5);
  CHECK(executable.nodes()[2].depends_on == std::vector<int>{1});
  CHECK(executable.nodes()[4].depends_on == std::vector<int>{2, 3});
  for (int i = 0; i < 100; ++i) {
    require_ok(executable.launch());
    require_ok(executable.wait());
    REQUIRE(download(b, 6) == std::vector<float>(6, 1.0F));
    REQUIRE(through.holds(2.0F));
  }
  (void)cudaFree(a);
  (void)cudaFree(b);
}

}  // namespace
