#include "peers/lt_demands.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "timing.hpp"

namespace bench {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::size_t at(int row, int col, int cols) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
         static_cast<std::size_t>(col);
}

// Done when this returns, for streams that do not wait for the legacy one too.
void upload(float* to, const float* values, std::size_t count) {
  check(cudaMemcpy(to, values, count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaDeviceSynchronize(), "cudaMemcpy");
}

std::vector<float> fetch(const float* data, std::size_t count) {
  std::vector<float> values(count);
  check(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return values;
}

/// Another value in one place of the device, for a scope.
class Poke {
 public:
  Poke(const float* place, float value)
      : place_(const_cast<float*>(place)), old_(fetch(place, 1).front()) {
    upload(place_, &value, 1);
  }
  ~Poke() {
    (void)cudaMemcpy(place_, &old_, sizeof old_, cudaMemcpyHostToDevice);
    (void)cudaDeviceSynchronize();
  }
  Poke(const Poke&) = delete;
  Poke& operator=(const Poke&) = delete;

 private:
  float* place_;
  float old_;
};

bool same(float a, float b) {
  return std::isnan(b) ? std::isnan(a) : a == b;
}

struct Line {
  bool is_row;
  int index;
};

bool holds(const float* data, int m, int n, const Line& line, float value) {
  const std::vector<float> values = fetch(data, at(m, 0, n));
  const int length = line.is_row ? n : m;
  for (int i = 0; i < length; ++i) {
    const float got = line.is_row ? values[at(line.index, i, n)] : values[at(i, line.index, n)];
    if (!same(got, value)) return false;
  }
  return true;
}

bool keeps(const LtGemm& gemm, const std::function<void()>& run) {
  const GemmProblem& p = gemm.problem();
  const auto gives = [&](const float* place, float poked, const Line& line, float y) {
    const Poke poke(place, poked);
    run();
    return holds(p.d, p.m, p.n, line, y);
  };
  const int last_m = p.m - 1;
  const int last_n = p.n - 1;
  const int last_k = p.k - 1;
  return gives(p.l, kNaN, {true, 0}, kNaN) &&
         gives(p.l + at(last_m, last_k, p.k), kNaN, {true, last_m}, kNaN) &&
         gives(p.r, kNaN, {false, 0}, kNaN) &&
         gives(p.r + at(last_k, last_n, p.n), kNaN, {false, last_n}, kNaN) &&
         gives(p.bias, kNaN, {false, 0}, kNaN) &&
         gives(p.bias + last_n, -kInf, {false, last_n}, 0.0F) &&
         gives(p.bias, kInf, {false, 0}, kInf);
}

bool sums(const LtGemm& gemm, const std::function<void()>& run) {
  const GemmProblem& p = gemm.problem();
  const std::vector<float> stale(static_cast<std::size_t>(p.n), kNaN);
  upload(p.bias, stale.data(), stale.size());
  run();
  const std::vector<float> r = fetch(p.r, at(p.k, 0, p.n));
  const std::vector<float> got = fetch(p.bias, static_cast<std::size_t>(p.n));
  for (int j = 0; j < p.n; ++j) {
    double sum = 0.0;
    double size = 0.0;
    for (int i = 0; i < p.k; ++i) {
      const auto value = static_cast<double>(r[at(i, j, p.n)]);
      sum += value;
      size += std::fabs(value);
    }
    const double bound = (2.0 * std::sqrt(static_cast<double>(p.k)) + 8.0) * 0x1p-24 * size;
    const double error = std::fabs(static_cast<double>(got[static_cast<std::size_t>(j)]) - sum);
    if (!(error <= bound)) return false;
  }
  return true;
}

}  // namespace

const Demand& keeps_special_values() {
  static const Demand demand{"keeps NaN and Inf", keeps};
  return demand;
}

const Demand& sums_columns() {
  static const Demand demand{"sums columns", sums};
  return demand;
}

}  // namespace bench
