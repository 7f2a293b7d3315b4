#include <string>
#include <utility>
#include <vector>

#include "chain_support.hpp"
#include "forward_support.hpp"

using namespace forward_test;
namespace chain = ai::kernels::chain;
using ai::GemmPlan;

namespace {

GemmPlan plan(const GemmForward& call) {
  ai::Result<GemmPlan> made = ai::plan_forward(call);
  REQUIRE_MESSAGE(made.ok(), made.status().to_string());
  return std::move(*made);
}

std::int64_t ld_of(const Matrix& matrix) {
  return matrix.tensor().desc.stride[0];
}

chain::Network network(const std::vector<GemmPlan>& plans, std::vector<bool> keeps_y) {
  auto made = chain::network_of(plans, keeps_y);
  REQUIRE_MESSAGE(made.ok(), made.status().to_string());
  return std::move(*made);
}

std::string refusal(const GemmForward& call) {
  const std::vector<GemmPlan> plans = {plan(Operands().call()), plan(call)};
  const auto made = chain::network_of(plans, {true, true});
  if (made.ok()) return "";
  CHECK(made.status().code() == ai::StatusCode::Unsupported);
  return made.status().message();
}

}  // namespace

TEST_CASE("strides carry leading dimensions and transposes") {
  const Operands op;
  GemmForward call = op.call();
  call.attrs.act = ActKind::LeakyReLU;
  call.attrs.leaky_slope = 0.5F;
  call.attrs.alpha = -2.0F;
  call.bias = op.per_n.tensor();
  call.Z = op.z.tensor();
  const chain::Network plain = network({plan(call)}, {false});
  CHECK(plain.input.rows == kM);
  CHECK(plain.input.x_m == ld_of(op.a));
  CHECK(plain.input.x_k == 1);
  REQUIRE(plain.layers.size() == 1);
  const chain::Layer& layer = plain.layers[0];
  CHECK(layer.k == kK);
  CHECK(layer.n == kN);
  CHECK(layer.w_k == ld_of(op.b));
  CHECK(layer.w_n == 1);
  CHECK(layer.act == ActKind::LeakyReLU);
  CHECK(layer.slope == 0.5F);
  CHECK(layer.alpha == -2.0F);
  CHECK(layer.has_bias);
  CHECK(layer.bias_n == 1);
  CHECK(layer.bias_m == 0);
  CHECK(layer.writes_y);  // the last one, whatever is asked
  CHECK(layer.y_m == ld_of(op.y));
  CHECK(layer.writes_z);
  CHECK(layer.z_m == ld_of(op.z));

  const Matrix a(kK, kM, 2);
  const Matrix b(kN, kK, 5);
  GemmForward transposed = op.call();
  transposed.A = a.tensor();
  transposed.B = b.tensor();
  transposed.attrs.trans_a = transposed.attrs.trans_b = true;
  const chain::Network other = network({plan(transposed)}, {true});
  CHECK(other.input.x_m == 1);
  CHECK(other.input.x_k == ld_of(a));
  CHECK(other.layers[0].w_k == 1);
  CHECK(other.layers[0].w_n == ld_of(b));
  CHECK(!other.layers[0].has_bias);
  CHECK(!other.layers[0].writes_z);
  CHECK(other.layers[0].slope == 0.0F);
}

TEST_CASE("each kind of bias has its strides") {
  const Operands op;
  GemmForward call = op.call();
  call.bias = op.per_m.tensor();
  const chain::Layer per_m = network({plan(call)}, {true}).layers[0];
  CHECK(per_m.has_bias);
  CHECK(per_m.bias_m == ld_of(op.per_m));
  CHECK(per_m.bias_n == 0);
  call.bias = op.scalar.tensor();
  const chain::Layer scalar = network({plan(call)}, {true}).layers[0];
  CHECK(scalar.has_bias);
  CHECK(scalar.bias_m == 0);
  CHECK(scalar.bias_n == 0);
}

TEST_CASE("arguments: x, then W, bias, Y and Z of every layer; null for what is not there") {
  const Operands op;
  const Matrix b2(kN, 3);
  const Matrix y2(kM, 3);
  GemmForward first = op.call();
  first.Z = op.z.tensor();
  GemmForward second;
  second.A = op.y.tensor();
  second.B = b2.tensor();
  second.bias = op.scalar.tensor();
  second.Y = y2.tensor();
  const std::vector<GemmPlan> plans = {plan(first), plan(second)};
  const chain::Network kept = network(plans, {true, true});
  CHECK(chain::arguments_of(plans, kept) ==
        std::vector<void*>{op.a.tensor().data, op.b.tensor().data, b2.tensor().data, nullptr,
                           op.scalar.tensor().data, op.y.tensor().data, y2.tensor().data,
                           op.z.tensor().data, nullptr});
  const chain::Network on_chip = network(plans, {false, false});
  CHECK(!on_chip.layers[0].writes_y);
  CHECK(on_chip.layers[1].writes_y);
  CHECK(chain::arguments_of(plans, on_chip)[5] == nullptr);
}

TEST_CASE("what the kernel cannot do is refused with the plan's place and the reason") {
  const Operands op;
  GemmForward call = op.call();
  CHECK(refusal(call) == "");
  call.C = op.c.tensor();
  call.attrs.beta = 0.5F;
  CHECK(refusal(call) == "plan 1 of the run: C takes part");
  call.attrs.beta = 0.0F;
  CHECK(refusal(call) == "");
  call.attrs.alpha = 0.0F;
  CHECK(refusal(call) == "plan 1 of the run: there is no product: K or alpha is 0");
  const Matrix none(kM, 0);
  const Matrix nothing(0, kN);
  call = op.call();
  call.A = none.tensor();
  call.B = nothing.tensor();
  CHECK(refusal(call) == "plan 1 of the run: there is no product: K or alpha is 0");
}
