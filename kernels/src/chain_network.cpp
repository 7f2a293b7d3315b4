#include "kernels/chain_source.hpp"
#include "kernels/variants.hpp"

namespace ai::kernels::chain {
namespace {

constexpr std::int64_t kMostElements = (std::int64_t{1} << 31) - 1;

bool is_small(const MatrixView& view) noexcept {
  return view.rows == 0 || (view.rows - 1) * view.ld + view.cols <= kMostElements;
}

bool is_small(const VectorView& view) noexcept {
  return view.count == 0 || (view.count - 1) * view.stride + 1 <= kMostElements;
}

int narrow(std::int64_t value) noexcept {
  return static_cast<int>(value);
}

/// Whether 16 bytes may be read or written at once, at the beginning of any row and behind it.
bool is_aligned(const MatrixView& view) noexcept {
  constexpr std::uint32_t kVector = 16;
  const bool rows_are = view.rows <= 1 || view.ld % (kVector / sizeof(float)) == 0;
  return view.data != nullptr && alignment_of(view.data) >= kVector && rows_are;
}

std::string reason_against(const ForwardProblem& problem) {
  const Product& product = problem.product;
  if (product.m() == 0 || product.n() == 0) return "Y has no elements";
  if (!problem.has_product()) return "there is no product: K or alpha is 0";
  if (product.beta != 0.0F) return "C takes part";
  for (const MatrixView& view : {product.l, product.r, product.d, problem.z}) {
    if (!is_small(view)) return "an operand spans 2^31 elements or more";
  }
  if (!is_small(problem.bias)) return "bias spans 2^31 elements or more";
  return {};
}

Layer layer_of(const ForwardProblem& problem, bool writes_y) {
  const Product& product = problem.product;
  const int ld = narrow(product.r.ld);
  Layer layer;
  layer.k = narrow(product.k());
  layer.n = narrow(product.n());
  layer.w_k = product.trans_r ? 1 : ld;
  layer.w_n = product.trans_r ? ld : 1;
  layer.act = problem.attrs().act;
  layer.slope = layer.act == ActKind::LeakyReLU ? problem.attrs().leaky_slope : 0.0F;
  layer.alpha = product.alpha;
  const BiasKind kind = problem.plan->bias_kind();
  layer.has_bias = kind != BiasKind::None;
  if (kind == BiasKind::PerN) layer.bias_n = narrow(problem.bias.stride);
  if (kind == BiasKind::PerM) layer.bias_m = narrow(problem.bias.stride);
  layer.writes_y = writes_y;
  layer.y_m = narrow(product.d.ld);
  layer.writes_z = problem.z.data != nullptr;
  layer.z_m = layer.writes_z ? narrow(problem.z.ld) : 0;
  layer.w16 = is_aligned(product.r);
  layer.y16 = is_aligned(product.d);
  layer.z16 = is_aligned(problem.z);
  return layer;
}

}  // namespace

Result<Network> network_of(std::span<const GemmPlan> plans, const std::vector<bool>& keeps_y) {
  Network network;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const ForwardProblem problem = forward_problem(plans[i]);
    if (const std::string reason = reason_against(problem); !reason.empty()) {
      return Status(StatusCode::Unsupported,
                    "plan " + std::to_string(i) + " of the run: " + reason);
    }
    if (i == 0) {
      const MatrixView& x = problem.product.l;
      const int ld = narrow(x.ld);
      const bool transposed = problem.product.trans_l;
      network.input = {narrow(problem.product.m()), transposed ? 1 : ld, transposed ? ld : 1,
                       is_aligned(x)};
    }
    network.layers.push_back(layer_of(problem, keeps_y[i] || i + 1 == plans.size()));
  }
  return network;
}

std::vector<void*> arguments_of(std::span<const GemmPlan> plans, const Network& network) {
  std::vector<void*> w;
  std::vector<void*> bias;
  std::vector<void*> y;
  std::vector<void*> z;
  std::vector<void*> all;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const ForwardProblem problem = forward_problem(plans[i]);
    if (i == 0) all.push_back(problem.product.l.data);
    w.push_back(problem.product.r.data);
    bias.push_back(problem.bias.data);
    y.push_back(network.layers[i].writes_y ? problem.product.d.data : nullptr);
    z.push_back(network.layers[i].writes_z ? problem.z.data : nullptr);
  }
  for (const auto* part : {&w, &bias, &y, &z}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

}  // namespace ai::kernels::chain
