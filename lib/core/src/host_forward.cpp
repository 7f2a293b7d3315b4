#include <optional>

#include "ai/program.hpp"
#include "core/host_product.hpp"
#include "core/host_steps.hpp"
#include "core/text.hpp"

namespace ai::host {
namespace {

/// What turns sums of products into Z and Y, a stretch of a row at a time.
struct Epilogue {
  GemmAttrs attrs;
  std::optional<View<const float>> c;
  std::optional<View<const float>> bias;
  std::optional<View<float>> z;
  View<float> y;

  /// `sums` becomes Z. C may be Y: the stretch is read before it is written.
  void operator()(std::int64_t row, std::int64_t col, double* sums, std::int64_t count) const {
    const double alpha = attrs.alpha;
    const double beta = attrs.beta;
    for (std::int64_t j = 0; j < count; ++j) {
      double value = alpha * sums[j];
      if (c) value += beta * c->at(row, col + j);
      if (bias) value += bias->at(row, col + j);
      sums[j] = value;
    }
    if (z) {
      for (std::int64_t j = 0; j < count; ++j) z->at(row, col + j) = static_cast<float>(sums[j]);
    }
    activation::dispatch(attrs.act, [&]<ActKind kAct>() {
      const double slope = attrs.leaky_slope;
      for (std::int64_t j = 0; j < count; ++j) {
        y.at(row, col + j) = static_cast<float>(activation::apply<kAct>(sums[j], slope));
      }
    });
  }
};

class ForwardStep final : public Step {
 public:
  explicit ForwardStep(const GemmPlan& plan)
      : Step(text("host_forward[", plan.m(), ",", plan.n(), "]"), ranges_of(inputs_of(plan)),
             ranges_of(outputs_of(plan))),
        plan_(plan) {}

  Status enqueue(const AddressMap& addresses, Stream) override {
    const GemmForward& call = plan_.forward();
    const GemmAttrs& attrs = call.attrs;
    Epilogue epilogue{attrs, {}, {}, {}, matrix_view<float>(addresses(call.Y))};
    if (call.C && attrs.beta != 0.0F) epilogue.c = matrix_view<const float>(addresses(*call.C));
    if (call.bias) epilogue.bias = bias_view(addresses(*call.bias), plan_.bias_kind());
    if (call.Z) epilogue.z = matrix_view<float>(addresses(*call.Z));
    product(matrix_view<const float>(addresses(call.A), attrs.trans_a),
            matrix_view<const float>(addresses(call.B), attrs.trans_b), plan_.m(), plan_.n(),
            attrs.alpha == 0.0F ? 0 : plan_.k(), epilogue);
    return {};
  }

 private:
  GemmPlan plan_;
};

}  // namespace

std::vector<std::shared_ptr<Step>> forward_steps(const GemmPlan& plan) {
  if (plan.m() == 0 || plan.n() == 0) return {};
  return {std::make_shared<ForwardStep>(plan)};
}

}  // namespace ai::host
