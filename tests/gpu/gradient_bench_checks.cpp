#include "gradient_bench_checks.hpp"

#include <cstring>
#include <utility>

#include "cuda/api.hpp"
#include "gradient_bench_support.hpp"
#include "kernels/gradients.hpp"

namespace gradient_bench {
namespace {

/// |act'| without the cancellation of its terms, times how much a rounded argument moves them.
double magnitude(ActKind act, double z, double derivative) {
  const double a = std::fabs(z);
  if (!std::isfinite(z)) return std::fabs(derivative);
  if (act == ActKind::GELU) {
    const double phi = 0.39894228040143268 * std::exp(-0.5 * z * z);
    return 0.5 * std::erfc(-z * 0.70710678118654752) + a * phi * (1.0 + 2.0 * z * z);
  }
  if (act == ActKind::GELUTanh) {
    const double v = activation::gelu_tanh_2u(z);
    const double dv = 1.5957691216057307 * (1.0 + 3 * 0.044715 * z * z);
    return activation::sigmoid(v) * (1.0 + std::fabs(v)) * (1.0 + a * dv * activation::sigmoid(-v));
  }
  if (act == ActKind::SiLU) {
    return activation::sigmoid(z) * (1.0 + a * activation::sigmoid(-z));
  }
  return std::fabs(derivative);
}

bool close(double got, double want, double bound) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::fabs(got - want) <= bound;
}

double derivative_of(const Shape& s, double z) {
  return activation::dispatch(s.act, [&]<ActKind kAct>() {
    return activation::derivative<kAct>(z, static_cast<double>(s.slope));
  });
}

constexpr double kUlp = 1.0 / (1 << 24);

void compare(const Shape& s, const Candidate& candidate, Fixture& f,
             const std::vector<float>& old_c, const std::vector<float>& old_bias, bool gz_stored) {
  const std::string name = text(s, candidate);
  std::vector<double> sums(old_bias.size(), 0.0);
  std::vector<double> slacks(old_bias.size(), 0.0);
  for (std::int64_t r = 0; r < s.m; ++r) {
    for (std::int64_t col = 0; col < s.n; ++col) {
      const double gy = f.gy.at(r, col);
      const double z = s.act == ActKind::None ? 0.0 : f.z.at(r, col);
      const double d = s.act == ActKind::None ? 1.0 : derivative_of(s, z);
      double gz = gy * d;
      double slack = s.act == ActKind::None
                         ? 0.0
                         : 10.0 * kUlp * std::fabs(gy) * magnitude(s.act, z, d) + 1e-40;
      if (gz_stored) {
        if (!close(f.gz.at(r, col), gz, slack)) {
          return fail(name + ": gZ(" + std::to_string(r) + "," + std::to_string(col) + ") is " +
                      std::to_string(f.gz.at(r, col)) + ", expected " + std::to_string(gz));
        }
        gz = f.gz.at(r, col);  // what follows is checked from the GPU's gZ, to the last bit or so
        slack = 0.0;
      }
      if (s.with_gc) {
        const double old = s.accumulate ? old_c[static_cast<std::size_t>(r * s.n + col)] : 0.0;
        const double want = s.beta == 0.0F ? old : old + s.beta * gz;
        const double bound = 1.01 * kUlp * std::fabs(want) +
                             (s.beta == 0.0F ? 0.0 : std::fabs(s.beta) * slack) + 1e-44;
        if (!close(f.gc.at(r, col), want, bound)) {
          return fail(name + ": gC(" + std::to_string(r) + "," + std::to_string(col) + ")");
        }
      }
      const std::int64_t i = s.kind == BiasKind::PerN ? col : s.kind == BiasKind::PerM ? r : 0;
      sums[static_cast<std::size_t>(i)] += gz;
      slacks[static_cast<std::size_t>(i)] += 1e-12 * std::fabs(gz) + slack;
    }
  }
  if (s.with_gc && !f.gc.padding_intact()) fail(name + ": gC's padding was written");
  if (s.kind == BiasKind::None) return;
  if (!f.bias.padding_intact()) fail(name + ": memory between elements of gBias was written");
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double want = sums[i] + (s.accumulate ? old_bias[i] : 0.0);
    const double bound = 1.01 * kUlp * std::fabs(want) + slacks[i] + 1e-44;
    const double got = f.bias.at(static_cast<std::int64_t>(i), 0);
    if (!close(got, want, bound)) {
      return fail(name + ": gBias(" + std::to_string(i) + ") is " + std::to_string(got) +
                  ", expected " + std::to_string(want));
    }
  }
}

int g_checked = 0;
std::map<std::string, int> g_by_candidate;

void check_shape(const Shape& s, int sm_count, cudaStream_t stream, Numbers& random) {
  Fixture f(s);
  const auto value = [&] {
    if (s.specials && random.below(64) == 0) {
      const float specials[] = {kNaN, INFINITY, -INFINITY, 0.0F, -0.0F, 1e30F, -1e30F, 1e-42F};
      return specials[random.below(8)];
    }
    return random.normal(2.0F);
  };
  f.gy.fill(value);
  f.z.fill(value);
  f.gy.upload();
  f.z.upload();
  const bool has_other_output = s.kind != BiasKind::None || s.with_gc;
  const bool store_gz = s.act != ActKind::None && !(has_other_output && random.below(4) == 0);
  std::vector<float> old_c(static_cast<std::size_t>(s.m * s.n), kNaN);
  std::vector<float> old_bias(static_cast<std::size_t>(Fixture::count(s)), kNaN);
  if (s.accumulate) {
    for (float& x : old_c) x = random.normal(2.0F);
    for (float& x : old_bias) x = random.normal(2.0F);
  }

  void* const gz = store_gz ? symbolic::allocate(static_cast<std::size_t>(s.m * s.n) * 4) : nullptr;
  const GemmPlan plan = plan_of(s, f.gy, f.z, f.gc, f.bias);
  const std::vector<Candidate> candidates =
      kernels::gradient_task(cuda::runtime_api(), sm_count, plan, gz).candidates;
  Scratch scratch;
  for (const Candidate& candidate : candidates) scratch.add(candidate);
  scratch.allocate();
  for (const Candidate& candidate : candidates) {
    if (!candidate.applicable()) continue;
    const Replay replay(candidate, scratch.map(), stream);
    std::size_t i = 0;
    f.gc.fill([&] { return old_c[i++]; });
    i = 0;
    f.bias.fill([&] { return old_bias[i++]; });
    f.gc.upload();
    f.bias.upload();
    replay.run();
    if (!s.accumulate) replay.run();
    f.gc.download();
    f.bias.download();
    if (store_gz && s.m * s.n > 0) {
      f.gz.fill([] { return 0.0F; });
      check(cudaMemcpy(&f.gz.at(0, 0), scratch.map()(gz), static_cast<std::size_t>(s.m * s.n) * 4,
                       cudaMemcpyDeviceToHost),
            "download gZ");
    }
    compare(s, candidate, f, old_c, old_bias, store_gz);
    ++g_checked;
    ++g_by_candidate[candidate.name];
  }
}

void check_all_shapes(bool quick, int sm_count, cudaStream_t stream) {
  Numbers random(20260101);
  const std::int64_t all_m[] = {1, 2, 4, 5, 31, 32, 33, 64, 501, 513};
  const std::int64_t all_n[] = {1, 3, 10, 127, 129, 256, 2049};
  for (const std::int64_t m : all_m) {
    for (const std::int64_t n : all_n) {
      for (int act = 0; act <= static_cast<int>(ActKind::Tanh); ++act) {
        for (int kind = 0; kind <= static_cast<int>(BiasKind::PerM); ++kind) {
          if (quick && random.below(8) != 0) continue;
          Shape s{m, n};
          s.act = static_cast<ActKind>(act);
          s.kind = static_cast<BiasKind>(kind);
          s.pad = random.below(2) == 0 ? 0 : static_cast<std::int64_t>(random.below(9));
          s.offset = static_cast<std::int64_t>(random.below(4));
          if (random.below(3) == 0) s.offset = 0;
          s.bias_stride = s.kind == BiasKind::Scalar || n == 1
                              ? 1
                              : 1 + static_cast<std::int64_t>(random.below(3));
          s.with_gc = random.below(2) == 0;
          s.accumulate = random.below(2) == 0;
          s.beta = random.below(4) == 0 ? 0.0F : -1.25F;
          s.slope = random.below(2) == 0 ? 0.01F : -2.0F;
          s.specials = random.below(3) == 0;
          check_shape(s, sm_count, stream, random);
        }
      }
    }
  }
  for (const auto& [m, n] : {std::pair{0, 5}, std::pair{5, 0}, std::pair{0, 0}}) {
    for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
      Shape s{m, n};
      s.kind = kind;
      check_shape(s, sm_count, stream, random);
    }
  }
  // Long and wide: parts of rows, pieces of rows, and blocks that take more than one item.
  const std::int64_t long_shapes[][2] = {{100003, 3},  {1, 300001}, {3, 40000},  {5000, 260},
                                         {1, 9000000}, {300000, 1}, {65537, 64}, {65535, 2},
                                         {65536, 2},   {1, 135168}};
  for (const auto& shape : long_shapes) {
    if (quick && shape[0] * shape[1] > 1000000) continue;
    for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
      for (const ActKind act : {ActKind::None, ActKind::ReLU}) {
        Shape s{shape[0], shape[1]};
        s.kind = kind;
        s.act = act;
        check_shape(s, sm_count, stream, random);
      }
    }
    Shape s{shape[0], shape[1]};
    s.act = ActKind::ReLU;
    s.kind = BiasKind::None;
    check_shape(s, sm_count, stream, random);
  }
}

/// D1: more elements than 2^31, each the same number.
void check_large(int sm_count, cudaStream_t stream) {
  const Shape base{16000000, 200};
  const std::size_t bytes = static_cast<std::size_t>(base.m * base.n) * sizeof(float);
  float* gy = nullptr;
  float* bias = nullptr;
  if (cudaMalloc(&gy, bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    std::printf("skipped: [16000000,200] needs 12.8 GB\n");
    return;
  }
  check(cudaMemset(gy, 0x3F, bytes), "cudaMemset");
  check(cudaMalloc(&bias, static_cast<std::size_t>(base.m) * 4), "cudaMalloc");
  float value = 0.0F;
  std::memset(&value, 0x3F, sizeof(value));
  for (const BiasKind kind : {BiasKind::Scalar, BiasKind::PerN, BiasKind::PerM}) {
    Shape s = base;
    s.act = ActKind::None;
    s.kind = kind;
    GemmBackward call;
    call.A = make_tensor_2d(nullptr, {s.m, 0});
    call.B = make_tensor_2d(nullptr, {0, s.n});
    call.gY = make_tensor_2d(gy, {s.m, s.n});
    const std::int64_t count = Fixture::count(s);
    call.gBias = Gradient(kind == BiasKind::PerM ? make_tensor_2d(bias, {count, 1})
                                                 : make_tensor_2d(bias, {1, count}));
    const Result<GemmPlan> plan = plan_backward(call);
    check(plan.status(), "plan_backward");
    const std::vector<Candidate> candidates =
        kernels::gradient_task(cuda::runtime_api(), sm_count, *plan, nullptr).candidates;
    Scratch scratch;
    for (const Candidate& candidate : candidates) scratch.add(candidate);
    scratch.allocate();
    for (const Candidate& candidate : candidates) {
      if (!candidate.applicable()) continue;
      check(cudaMemset(bias, 0xFF, static_cast<std::size_t>(count) * 4), "cudaMemset");
      Replay(candidate, scratch.map(), stream).run();
      std::vector<float> got(static_cast<std::size_t>(count));
      check(cudaMemcpy(got.data(), bias, got.size() * 4, cudaMemcpyDeviceToHost), "download");
      const double want = static_cast<double>(value) * static_cast<double>(s.m * s.n / count);
      for (const float x : got) {
        if (!close(x, want, 1.01 * kUlp * want)) {
          fail(text(s, candidate) + ": " + std::to_string(x) + ", expected " +
               std::to_string(want));
          break;
        }
      }
      ++g_checked;
      ++g_by_candidate[candidate.name];
    }
  }
  cudaFree(gy);
  cudaFree(bias);
}

}  // namespace

void check_all(bool quick, int sm_count, cudaStream_t stream) {
  check_all_shapes(quick, sm_count, stream);
  if (!quick) check_large(sm_count, stream);
}

void print_checked() {
  for (const auto& [name, times] : g_by_candidate) std::printf("%-28s %d\n", name.c_str(), times);
  std::printf("%d results checked, %d wrong\n", g_checked, g_failures);
}

}  // namespace gradient_bench
