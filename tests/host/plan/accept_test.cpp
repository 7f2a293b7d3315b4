#include "host/plan/plan_support.hpp"

using namespace plan_test;
using ai::BiasKind;
using ai::GradMode;

namespace {

void check_held(const Tensor& held, const void* data, Extents shape, std::int64_t ld) {
  CHECK(held.data == data);
  CHECK(held.desc.shape == shape);
  CHECK(held.desc.stride == Extents{ld, 1});
}

}  // namespace

TEST_CASE("forward is planned for all four transpose pairs with padded operands") {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      CAPTURE(trans_a);
      CAPTURE(trans_b);
      const Extents a = trans_a ? Extents{kK, kM} : Extents{kM, kK};
      const Extents b = trans_b ? Extents{kN, kK} : Extents{kK, kN};
      GemmForward call = full_forward();
      call.A = matrix(0, a, 10);
      call.B = matrix(1, b, 11);
      call.Y = matrix(4, {kM, kN}, 12);
      call.attrs.trans_a = trans_a;
      call.attrs.trans_b = trans_b;
      const Result<GemmPlan> planned = plan(call);
      REQUIRE_MESSAGE(planned.ok(), planned.status().message());
      CHECK(planned->direction() == GemmPlan::Direction::Forward);
      CHECK(planned->m() == kM);
      CHECK(planned->n() == kN);
      CHECK(planned->k() == kK);
      CHECK(planned->attrs().trans_a == trans_a);
      CHECK(planned->attrs().trans_b == trans_b);
      CHECK(planned->attrs().act == ai::ActKind::LeakyReLU);
      check_held(planned->forward().A, call.A.data, a, 10);
      check_held(planned->forward().B, call.B.data, b, 11);
      check_held(*planned->forward().C, call.C->data, {kM, kN}, kN);
      check_held(planned->forward().Y, call.Y.data, {kM, kN}, 12);
      check_held(*planned->forward().Z, call.Z->data, {kM, kN}, kN);
    }
  }
}

TEST_CASE("backward is planned for all four transpose pairs with padded operands") {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      CAPTURE(trans_a);
      CAPTURE(trans_b);
      const Extents a = trans_a ? Extents{kK, kM} : Extents{kM, kK};
      const Extents b = trans_b ? Extents{kN, kK} : Extents{kK, kN};
      GemmBackward call = full_backward();
      call.A = matrix(0, a, 10);
      call.B = matrix(1, b, 11);
      call.gY = matrix(6, {kM, kN}, 12);
      call.gA = {matrix(7, a, 13), GradMode::Accumulate};
      call.gB = matrix(8, b, 14);
      call.attrs.trans_a = trans_a;
      call.attrs.trans_b = trans_b;
      const Result<GemmPlan> planned = plan(call);
      REQUIRE_MESSAGE(planned.ok(), planned.status().message());
      CHECK(planned->direction() == GemmPlan::Direction::Backward);
      CHECK(planned->m() == kM);
      CHECK(planned->n() == kN);
      CHECK(planned->k() == kK);
      CHECK(planned->bias_kind() == BiasKind::PerN);
      check_held(planned->backward().A, call.A.data, a, 10);
      check_held(planned->backward().B, call.B.data, b, 11);
      check_held(*planned->backward().C, call.C->data, {kM, kN}, kN);
      check_held(planned->backward().gY, call.gY.data, {kM, kN}, 12);
      check_held(*planned->backward().Z, call.Z->data, {kM, kN}, kN);
      check_held(planned->backward().gA->tensor, call.gA->tensor.data, a, 13);
      check_held(planned->backward().gB->tensor, call.gB->tensor.data, b, 14);
      check_held(planned->backward().gC->tensor, call.gC->tensor.data, {kM, kN}, kN);
      CHECK(planned->backward().gA->mode == GradMode::Accumulate);
      CHECK(planned->backward().gB->mode == GradMode::Overwrite);
    }
  }
}

TEST_CASE("operands that are not given stay absent in the plan") {
  const Result<GemmPlan> forward = plan(small_forward());
  REQUIRE(forward.ok());
  CHECK_FALSE(forward->forward().C.has_value());
  CHECK_FALSE(forward->forward().bias.has_value());
  CHECK_FALSE(forward->forward().Z.has_value());
  const Result<GemmPlan> backward = plan(small_backward());
  REQUIRE(backward.ok());
  CHECK_FALSE(backward->backward().C.has_value());
  CHECK_FALSE(backward->backward().Z.has_value());
  CHECK_FALSE(backward->backward().gB.has_value());
  CHECK_FALSE(backward->backward().gC.has_value());
  CHECK_FALSE(backward->backward().gBias.has_value());
}

TEST_CASE("C1 K = 0 is planned with null A and B") {
  GemmForward forward = full_forward(kM, kN, 0);
  forward.A.data = nullptr;
  forward.B.data = nullptr;
  check_ok(forward);
  GemmBackward backward = full_backward(kM, kN, 0);
  backward.A.data = nullptr;
  backward.B.data = nullptr;
  backward.gA->tensor.data = nullptr;
  backward.gB->tensor.data = nullptr;
  check_ok(backward);
}

TEST_CASE("C2 M = 0 and N = 0 are planned with null data, and other operands keep theirs") {
  GemmForward forward = full_forward(0);
  for (Tensor* tensor : {&forward.A, &*forward.C, &forward.Y, &*forward.Z}) tensor->data = nullptr;
  check_ok(forward);
  GemmBackward backward = full_backward(0);
  for (Tensor* tensor :
       {&backward.A, &backward.gY, &*backward.Z, &backward.gA->tensor, &backward.gC->tensor}) {
    tensor->data = nullptr;
  }
  check_ok(backward);
  backward.gB->tensor.data = nullptr;  // a sum over nothing is still written
  check_refused(backward, StatusCode::Invalid, "gB is null, expected memory because it is [3,7]");

  forward = full_forward(kM, 0, kK);
  for (Tensor* tensor : {&forward.B, &*forward.C, &*forward.bias, &forward.Y, &*forward.Z}) {
    tensor->data = nullptr;
  }
  check_ok(forward);
  backward = full_backward(0, kN, kK);
  backward.gBias->tensor.data = nullptr;
  check_refused(backward, StatusCode::Invalid,
                "gBias is null, expected memory because it is [1,7]");
}

TEST_CASE("an empty operand may have any address") {
  GemmForward call = small_forward(kM, kN, 0);
  call.A.data = address(0x1001);
  call.B.data = address(~std::uintptr_t{0});
  check_ok(call);
}

TEST_CASE("a plan is a value and outlives the call it was made of") {
  Result<GemmPlan> planned = [] {
    const GemmForward call = full_forward();
    return plan(call);
  }();
  REQUIRE(planned.ok());
  const GemmPlan copy = *planned;
  CHECK(copy.m() == kM);
  CHECK(copy.forward().Y.data == matrix(4, {1, 1}).data);
  CHECK(copy.device() == ai::Device::CUDA);
  CHECK(copy.device_index() == 0);
}

TEST_CASE("success carries no message") {
  CHECK(plan(full_forward()).status().message().empty());
}
