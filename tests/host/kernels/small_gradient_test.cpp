#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fake_device.hpp"
#include "kernels/gradients.hpp"
#include "matrix.hpp"

using ai::ActKind;
using ai::BiasKind;
using ai::Candidate;
using ai::GemmBackward;
using ai::GradMode;
using ai::Task;
using Names = std::vector<std::string>;

namespace {

constexpr const char* kRows = "activation_grad/rows";
constexpr const char* kTiles = "activation_grad/tiles";

/// gA is asked for too, which is no matter of the task that is tested.
GemmBackward call_over(const Matrix& a, const Matrix& b, const Matrix& gy, const Matrix& z,
                       const Matrix& ga, ActKind act) {
  GemmBackward call = {.A = a.tensor(), .B = b.tensor(), .gY = gy.tensor(), .gA = ga.tensor()};
  call.attrs.act = act;
  call.attrs.leaky_slope = 0.5F;
  if (act != ActKind::None) call.Z = z.tensor();
  return call;
}

Task task_of(const GemmBackward& call, void* gz, const ai::Recall& recall = {}) {
  const ai::Result<ai::GemmPlan> plan = ai::plan_backward(call);
  REQUIRE_MESSAGE(plan.ok(), plan.status().to_string());
  return ai::kernels::gradient_task(fake_device::api(), 132, *plan, gz, {recall, 0});
}

/// Of a [m,n] that is nowhere.
Task task_of_size(std::int64_t m, std::int64_t n, BiasKind kind, std::int64_t ld = 0) {
  std::uintptr_t next = std::uintptr_t{1} << 40;
  const auto tensor = [&](std::int64_t rows, std::int64_t cols, std::int64_t pitch) {
    next += std::uintptr_t{1} << 40;
    return ai::make_tensor_2d(reinterpret_cast<void*>(next), {rows, cols}, ai::DType::F32,
                              ai::Device::CUDA, 0, pitch);
  };
  ld = ld == 0 ? n : ld;
  GemmBackward call = {
      .A = tensor(m, 2, 2), .B = tensor(2, n, n), .gY = tensor(m, n, ld), .gA = tensor(m, 2, 2)};
  call.Z = tensor(m, n, n);
  call.attrs.act = ActKind::ReLU;
  if (kind == BiasKind::PerN) call.gBias = ai::Gradient(tensor(1, n, n));
  if (kind == BiasKind::PerM) call.gBias = ai::Gradient(tensor(m, 1, 1));
  if (kind == BiasKind::Scalar) call.gBias = ai::Gradient(tensor(1, 1, 1));
  return task_of(call, ai::symbolic::allocate(static_cast<std::size_t>(m * n) * 4));
}

/// What each candidate of that task says against itself, or its name where it applies.
Names verdicts(const Task& task) {
  Names result;
  for (const Candidate& candidate : task.candidates) {
    result.push_back(candidate.applicable() ? candidate.name : candidate.reason);
  }
  return result;
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
bool same(float got, float wanted) {
  return std::isnan(wanted) ? std::isnan(got) : bits_of(got) == bits_of(wanted);
}

}  // namespace

TEST_CASE("of few rows a thread a column comes first, of more it comes after those that share") {
  (void)fake_device::fresh_backend();
  for (const std::int64_t m : {1, 4}) {
    CHECK(verdicts(task_of_size(m, 256, BiasKind::PerN)) ==
          Names{kRows, "activation_grad", kTiles, "activation_grad+bias_grad"});
  }
  for (const std::int64_t m : {5, 32}) {
    CHECK(verdicts(task_of_size(m, 256, BiasKind::PerN)) ==
          Names{"activation_grad", kTiles, kRows, "activation_grad+bias_grad"});
  }
  for (const std::int64_t m : {33, 512}) {
    CHECK(verdicts(task_of_size(m, 64, BiasKind::PerN)) ==
          Names{"activation_grad", kTiles,
                "each column has " + std::to_string(m) + " rows, expected at most 32",
                "activation_grad+bias_grad"});
  }
  CHECK(verdicts(task_of_size(513, 64, BiasKind::PerN))[1] ==
        "each column has 513 rows, expected at most 512");
  CHECK(verdicts(task_of_size(100, 20, BiasKind::None)) == Names{kRows, "activation_grad"});
  CHECK(verdicts(task_of_size(4, 256, BiasKind::PerM)) ==
        Names{"activation_grad", "activation_grad+bias_grad"});
  CHECK(verdicts(task_of_size(4, 256, BiasKind::Scalar)) ==
        Names{"activation_grad", "activation_grad+bias_grad"});
}

TEST_CASE("the small forms want all their threads resident, indices below 2^31, and no gC") {
  (void)fake_device::fresh_backend();
  CHECK(verdicts(task_of_size(1, 135168, BiasKind::PerN))[0] == kRows);  // 132 * 1024
  CHECK(verdicts(task_of_size(1, 135232, BiasKind::PerN))[0] ==
        "it would take 135424 threads, expected at most 135168");
  CHECK(verdicts(task_of_size(528, 256, BiasKind::None))[0] == kRows);
  CHECK(verdicts(task_of_size(529, 256, BiasKind::None))[0] ==
        "it would take 135424 threads, expected at most 135168");
  CHECK(verdicts(task_of_size(512, 1056, BiasKind::PerN))[1] == kTiles);
  CHECK(verdicts(task_of_size(512, 1057, BiasKind::PerN))[1] ==
        "it would take 136192 threads, expected at most 135168");
  constexpr std::int64_t kPitch = (std::int64_t{1} << 31) - 9;
  CHECK(verdicts(task_of_size(2, 8, BiasKind::PerN, kPitch))[0] == kRows);
  CHECK(verdicts(task_of_size(2, 8, BiasKind::PerN, kPitch + 1))[0] ==
        "an operand spans 2^31 elements or more");

  const Matrix a(4, 2), b(2, 12), gy(4, 12), z(4, 12), c(4, 12), gc(4, 12), bias(1, 12), ga(4, 2);
  GemmBackward call = call_over(a, b, gy, z, ga, ActKind::ReLU);
  call.C = c.tensor();
  call.gC = ai::Gradient(gc.tensor());
  call.attrs.beta = 1.0F;
  CHECK(verdicts(task_of(call, nullptr)) == Names{"it makes no gC", "activation_grad"});
  call.gBias = ai::Gradient(bias.tensor());
  CHECK(verdicts(task_of(call, nullptr)) ==
        Names{"it makes no gC", "activation_grad", "it makes no gC", "activation_grad+bias_grad"});
}

TEST_CASE("the small forms give gZ and its sums, rounded once, at every edge") {
  (void)fake_device::fresh_backend();
  int seen = 0;
  for (const std::int64_t m : {1, 2, 3, 4, 5, 31, 32, 33, 64, 257}) {
    for (const std::int64_t n : {1, 3, 127, 129}) {
      for (int act = 0; act <= static_cast<int>(ActKind::Tanh); ++act) {
        for (const GradMode mode : {GradMode::Overwrite, GradMode::Accumulate}) {
          for (const bool with_bias : {false, true}) {
            for (const bool with_gz : {false, true}) {
              if (!with_bias && !with_gz) continue;
              const auto kind = static_cast<ActKind>(act);
              const Matrix a(m, 2), b(2, n), ga(m, 2);
              Matrix gy(m, n, 3, 1), z(m, n, 1, 0, 9), bias(n, 1, 1, 0, 3);
              gy.at(m - 1, 0) = std::nanf("");
              z.at(m / 2, n / 2) = -0.0F;
              z.at(0, n - 1) = INFINITY;
              gy.at(m - 1, n - 1) = m == 1 ? -0.0F : -INFINITY;
              GemmBackward call = call_over(a, b, gy, z, ga, kind);
              if (with_bias) {
                call.gBias = ai::Gradient(
                    ai::make_tensor_1d(bias.data(), n, ai::DType::F32, ai::Device::CUDA, 0, 2),
                    mode);
              }
              void* const gz =
                  with_gz ? ai::symbolic::allocate(static_cast<std::size_t>(m * n) * 4) : nullptr;
              const Task task = task_of(call, gz);
              for (const Candidate& candidate : task.candidates) {
                if (!candidate.applicable()) continue;
                if (candidate.name != kRows && candidate.name != kTiles) continue;
                CAPTURE(candidate.name);
                CAPTURE(m);
                CAPTURE(n);
                CAPTURE(act);
                CAPTURE(static_cast<int>(mode));
                CAPTURE(with_bias);
                CAPTURE(with_gz);
                ++seen;
                std::vector<float> old;
                for (std::int64_t col = 0; col < n; ++col) {
                  bias.at(col, 0) = mode == GradMode::Overwrite ? std::nanf("") : -0.0F;
                  if (mode == GradMode::Accumulate && col % 2 == 1) bias.at(col, 0) = 3.0F;
                  old.push_back(bias.at(col, 0));
                }
                fake_device::Runner runner;
                REQUIRE(runner.run(candidate).ok());
                bool right = bias.padding_is_untouched();
                for (std::int64_t col = 0; col < n; ++col) {
                  double sum = 0.0;
                  double size = 0.0;  // of all terms
                  for (std::int64_t row = 0; row < m; ++row) {
                    const float slope =
                        ai::activation::dispatch(kind, [&]<ActKind kAct>() -> float {
                          return ai::activation::derivative<kAct>(z.at(row, col), 0.5F);
                        });
                    const float wanted = gy.at(row, col) * slope;
                    sum += static_cast<double>(wanted);
                    size += std::fabs(static_cast<double>(wanted));
                    if (!with_gz) continue;
                    const auto* made = static_cast<const float*>(runner.addresses()(gz));
                    right = right && same(made[row * n + col], wanted);
                  }
                  if (!with_bias) continue;
                  const auto before = static_cast<double>(old[static_cast<std::size_t>(col)]);
                  const double wanted = mode == GradMode::Accumulate ? before + sum : sum;
                  const float got = bias.at(col, 0);
                  // Half a unit of the f32, and what the order of an f64 sum may change.
                  const double bound =
                      0x1p-24 * std::fabs(wanted) + static_cast<double>(m) * 0x1p-52 * (size + 3.0);
                  const bool is_exact = m == 1 || !std::isfinite(wanted);
                  right =
                      right && (is_exact ? same(got, static_cast<float>(wanted))
                                         : std::fabs(static_cast<double>(got) - wanted) <= bound);
                }
                CHECK(right);
              }
            }
          }
        }
      }
    }
  }
  CHECK(seen > 1000);
}

TEST_CASE("a small form is recalled by its name, and not where it is not open") {
  (void)fake_device::fresh_backend();
  const Matrix gy(16, 12), z(16, 12), a(16, 2), b(2, 12), bias(1, 12), ga(16, 2);
  GemmBackward call = call_over(a, b, gy, z, ga, ActKind::Tanh);
  void* const gz = ai::symbolic::allocate(16 * 12 * 4);
  for (const bool with_bias : {true, false}) {
    CAPTURE(with_bias);
    if (with_bias) call.gBias = ai::Gradient(bias.tensor());
    if (!with_bias) call.gBias.reset();
    for (const char* name : {kRows, kTiles}) {
      CAPTURE(name);
      const ai::RecalledCandidate known = {name, name};
      const Task task = task_of(call, gz, [&](std::size_t) { return &known; });
      const bool is_open = with_bias || name == kRows;
      CHECK(task.recalled == is_open);
      if (is_open) CHECK(verdicts(task) == Names{name});
      if (is_open) CHECK(task.candidates[0].recipe == name);
    }
  }
}

TEST_CASE("a small form takes the addresses of the recording and loads its kernel before") {
  (void)fake_device::fresh_backend();
  const Matrix z(2, 8), a(2, 2), b(2, 8), ga(2, 2);
  Matrix gy(2, 8), bias(1, 8), moved(1, 8);
  GemmBackward call = call_over(a, b, gy, z, ga, ActKind::None);
  call.gBias = ai::Gradient(bias.tensor());
  const Task task = task_of(call, nullptr);
  REQUIRE(task.candidates[0].name == kRows);
  REQUIRE(task.candidates[0].steps.size() == 1);
  fake_device::state().calls.clear();
  REQUIRE(task.candidates[0].steps[0]->prepare().ok());
  CHECK(fake_device::state().calls == Names{"load"});
  moved.fill(-7.0F);
  ai::AddressMap addresses;
  addresses.add(reinterpret_cast<std::uintptr_t>(bias.data()), 32, moved.data());
  REQUIRE(task.candidates[0].steps[0]->enqueue(addresses, nullptr).ok());
  for (std::int64_t col = 0; col < 8; ++col) {
    CHECK(moved.at(0, col) == gy.at(0, col) + gy.at(1, col));
  }
}
