#include <algorithm>
#include <string>
#include <utility>

#include "core/host_product.hpp"
#include "core/host_steps.hpp"
#include "core/text.hpp"

namespace ai::host {
namespace {

/// gZ = gY * act'(Z) of one call: scratch in double, or gY itself where there is no activation.
class GradZ {
 public:
  explicit GradZ(const GemmPlan& plan) : gy_(plan.backward().gY), rows_(plan.m()), cols_(plan.n()) {
    if (plan.attrs().act == ActKind::None) return;
    scratch_ = symbolic::allocate(bytes());
  }

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] bool is_scratch() const noexcept { return scratch_ != nullptr; }
  [[nodiscard]] MemoryRange range() const noexcept {
    return is_scratch() ? range_of(scratch_, bytes()) : range_of(gy_);
  }
  /// Precondition: is_scratch().
  [[nodiscard]] View<double> scratch(const AddressMap& addresses) const noexcept {
    return {static_cast<double*>(addresses(scratch_)), cols_, 1};
  }
  /// Calls f with a View<const double> or View<const float>.
  template <typename F>
  void visit(const AddressMap& addresses, F&& f) const {
    if (is_scratch()) {
      f(View<const double>{static_cast<const double*>(addresses(scratch_)), cols_, 1});
    } else {
      f(matrix_view<const float>(addresses(gy_)));
    }
  }

 private:
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(rows_ * cols_) * sizeof(double);
  }

  Tensor gy_;
  std::int64_t rows_;
  std::int64_t cols_;
  void* scratch_ = nullptr;
};

/// Where a gradient goes. Overwrite never reads what is there.
struct Target {
  View<float> view;
  bool accumulates;

  void put(std::int64_t row, std::int64_t col, double value) const noexcept {
    float& out = view.at(row, col);
    out = static_cast<float>(accumulates ? static_cast<double>(out) + value : value);
  }
};

class GradZStep final : public Step {
 public:
  GradZStep(const GemmPlan& plan, const GradZ& gz)
      : Step("host_gZ", {range_of(plan.backward().gY), range_of(*plan.backward().Z)}, {gz.range()}),
        call_(plan.backward()),
        gz_(gz) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const auto gy = matrix_view<const float>(addresses(call_.gY));
    const auto z = matrix_view<const float>(addresses(*call_.Z));
    const View<double> out = gz_.scratch(addresses);
    const double slope = call_.attrs.leaky_slope;
    activation::dispatch(call_.attrs.act, [&]<ActKind kAct>() {
      for (std::int64_t r = 0; r < gz_.rows(); ++r) {
        for (std::int64_t c = 0; c < gz_.cols(); ++c) {
          const double d = activation::derivative<kAct>(static_cast<double>(z.at(r, c)), slope);
          out.at(r, c) = gy.at(r, c) * d;
        }
      }
    });
    return {};
  }

 private:
  GemmBackward call_;
  GradZ gz_;
};

/// Common part of the steps that make a gradient of gZ. `scale` 0 means that gZ (and what it is
/// multiplied with) is not read.
class GradientStep : public Step {
 public:
  GradientStep(const char* name, const GradZ& gz, float scale, const Gradient& gradient,
               std::vector<MemoryRange> reads)
      : Step(text("host_", name), all_reads(gz, scale, gradient, std::move(reads)),
             {range_of(gradient.tensor)}),
        gz_(gz),
        scale_(scale),
        gradient_(gradient) {}

 protected:
  [[nodiscard]] const GradZ& gz() const noexcept { return gz_; }
  [[nodiscard]] double scale() const noexcept { return scale_; }
  [[nodiscard]] Target target(const AddressMap& addresses, bool transposed = false) const noexcept {
    return {matrix_view<float>(addresses(gradient_.tensor), transposed),
            gradient_.mode == GradMode::Accumulate};
  }

 private:
  static std::vector<MemoryRange> all_reads(const GradZ& gz, float scale, const Gradient& gradient,
                                            std::vector<MemoryRange> reads) {
    if (scale == 0.0F) reads.clear();
    if (scale != 0.0F) reads.push_back(gz.range());
    if (gradient.mode == GradMode::Accumulate) reads.push_back(range_of(gradient.tensor));
    return reads;
  }

  GradZ gz_;
  float scale_;
  Gradient gradient_;
};

/// gA[M,K] = alpha * gZ op(B)^T.
class GradAStep final : public GradientStep {
 public:
  explicit GradAStep(const GemmPlan& plan, const GradZ& gz)
      : GradientStep("gA", gz, plan.attrs().alpha, *plan.backward().gA,
                     {range_of(plan.backward().B)}),
        b_(plan.backward().B),
        attrs_(plan.attrs()),
        k_(plan.k()) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const auto b_transposed = matrix_view<const float>(addresses(b_), !attrs_.trans_b);
    const Target out = target(addresses, attrs_.trans_a);
    const std::int64_t depth = scale() == 0.0 ? 0 : gz().cols();
    gz().visit(addresses, [&](const auto& gz_view) {
      product(gz_view, b_transposed, gz().rows(), k_, depth,
              [&](std::int64_t row, std::int64_t col, const double* sums, std::int64_t count) {
                for (std::int64_t j = 0; j < count; ++j) out.put(row, col + j, scale() * sums[j]);
              });
    });
    return {};
  }

 private:
  Tensor b_;
  GemmAttrs attrs_;
  std::int64_t k_;
};

/// gB[K,N] = alpha * op(A)^T gZ.
class GradBStep final : public GradientStep {
 public:
  explicit GradBStep(const GemmPlan& plan, const GradZ& gz)
      : GradientStep("gB", gz, plan.attrs().alpha, *plan.backward().gB,
                     {range_of(plan.backward().A)}),
        a_(plan.backward().A),
        attrs_(plan.attrs()),
        k_(plan.k()) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const auto a_transposed = matrix_view<const float>(addresses(a_), !attrs_.trans_a);
    const Target out = target(addresses, attrs_.trans_b);
    const std::int64_t depth = scale() == 0.0 ? 0 : gz().rows();
    gz().visit(addresses, [&](const auto& gz_view) {
      product(a_transposed, gz_view, k_, gz().cols(), depth,
              [&](std::int64_t row, std::int64_t col, const double* sums, std::int64_t count) {
                for (std::int64_t j = 0; j < count; ++j) out.put(row, col + j, scale() * sums[j]);
              });
    });
    return {};
  }

 private:
  Tensor a_;
  GemmAttrs attrs_;
  std::int64_t k_;
};

/// gC = beta * gZ.
class GradCStep final : public GradientStep {
 public:
  explicit GradCStep(const GemmPlan& plan, const GradZ& gz)
      : GradientStep("gC", gz, plan.attrs().beta, *plan.backward().gC, {}) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const Target out = target(addresses);
    gz().visit(addresses, [&](const auto& gz_view) {
      for (std::int64_t r = 0; r < gz().rows(); ++r) {
        for (std::int64_t c = 0; c < gz().cols(); ++c) {
          out.put(r, c, scale() == 0.0 ? 0.0 : scale() * gz_view.at(r, c));
        }
      }
    });
    return {};
  }
};

/// gBias = gZ summed along the axes that bias was spread over.
class GradBiasStep final : public GradientStep {
 public:
  explicit GradBiasStep(const GemmPlan& plan, const GradZ& gz)
      : GradientStep("gBias", gz, 1.0F, *plan.backward().gBias, {}), kind_(plan.bias_kind()) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const Target out = target(addresses);  // element i of the vector is row i
    gz().visit(addresses, [&](const auto& view) {
      if (kind_ == BiasKind::PerN) {
        sum_columns(view, out);
      } else {
        sum_rows(view, out);
      }
    });
    return {};
  }

 private:
  template <typename T>
  void sum_columns(const View<T>& view, const Target& out) const {
    for (std::int64_t col = 0; col < gz().cols(); col += kTileCols) {
      const std::int64_t count = std::min(kTileCols, gz().cols() - col);
      double sums[kTileCols] = {};
      for (std::int64_t r = 0; r < gz().rows(); ++r) {
        for (std::int64_t j = 0; j < count; ++j) sums[j] += view.at(r, col + j);
      }
      for (std::int64_t j = 0; j < count; ++j) out.put(col + j, 0, sums[j]);
    }
  }

  template <typename T>
  void sum_rows(const View<T>& view, const Target& out) const {
    double total = 0.0;
    for (std::int64_t r = 0; r < gz().rows(); ++r) {
      double sum = 0.0;
      for (std::int64_t c = 0; c < gz().cols(); ++c) sum += view.at(r, c);
      if (kind_ == BiasKind::PerM) out.put(r, 0, sum);
      total += sum;
    }
    if (kind_ == BiasKind::Scalar) out.put(0, 0, total);
  }

  BiasKind kind_;
};

/// Whether there is anything to write: no element, or nothing to add to it, is no work.
bool has_work(const std::optional<Gradient>& gradient, std::int64_t sum_length, float scale) {
  if (!gradient || range_of(gradient->tensor).empty()) return false;
  return gradient->mode == GradMode::Overwrite || (sum_length > 0 && scale != 0.0F);
}

}  // namespace

std::vector<std::shared_ptr<Step>> backward_steps(const GemmPlan& plan) {
  const GemmBackward& call = plan.backward();
  const GemmAttrs& attrs = plan.attrs();
  const GradZ gz(plan);
  std::vector<std::shared_ptr<Step>> steps;
  if (has_work(call.gA, plan.n(), attrs.alpha)) {
    steps.push_back(std::make_shared<GradAStep>(plan, gz));
  }
  if (has_work(call.gB, plan.m(), attrs.alpha)) {
    steps.push_back(std::make_shared<GradBStep>(plan, gz));
  }
  if (has_work(call.gC, 1, attrs.beta)) steps.push_back(std::make_shared<GradCStep>(plan, gz));
  if (has_work(call.gBias, plan.m() * plan.n(), 1.0F)) {
    steps.push_back(std::make_shared<GradBiasStep>(plan, gz));
  }
  const bool has_elements = plan.m() > 0 && plan.n() > 0;
  if (!steps.empty() && gz.is_scratch() && has_elements) {
    steps.insert(steps.begin(), std::make_shared<GradZStep>(plan, gz));
  }
  return steps;
}

}  // namespace ai::host
