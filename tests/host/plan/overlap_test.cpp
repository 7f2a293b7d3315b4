#include "ai/memory.hpp"
#include "host/plan/plan_support.hpp"

using namespace plan_test;

namespace {

template <typename Call>
void check_overlap(const Call& call, const std::string& output, const std::string& other) {
  const Status status = plan(call).status();
  CHECK(status.code() == StatusCode::Overlap);
  CHECK_MESSAGE(status.message().starts_with(output + " overlaps " + other + ": "),
                status.message());
}

}  // namespace

TEST_CASE("rule overlap: C15 every output against every operand, in both directions") {
  int pairs = 0;
  for_each_operand([&](Slot& output) {
    if (!output.is_output) return;
    for_each_operand([&](Slot& other) {
      if (other.is_backward != output.is_backward || other.name == output.name) return;
      if (other.is_backward && other.name == "C") return;  // only described
      void* const kept = output.tensor.data;
      output.tensor.data = other.tensor.data;
      const Status status = output.plan();
      if (output.name == "Y" && other.name == "C") {
        check_ok(status);
      } else {
        CHECK(status.code() == StatusCode::Overlap);
        const std::string a = output.name + " overlaps " + other.name + ": ";
        const std::string b = other.name + " overlaps " + output.name + ": ";
        const bool named =
            status.message().starts_with(a) || (other.is_output && status.message().starts_with(b));
        CHECK_MESSAGE(named, status.message());
        ++pairs;
      }
      output.tensor.data = kept;
    });
  });
  CHECK(pairs == 2 * 5 - 1 + 4 * 7);
}

TEST_CASE("rule overlap: C15 the message describes both operands") {
  GemmForward call = small_forward(kM, kN, kN);
  call.Y.data = static_cast<char*>(call.A.data) + 4;
  check_refused(call, StatusCode::Overlap,
                "Y overlaps A: Y is [5,7] with strides [7,1] at 0x10000004, A is [5,7] with "
                "strides [7,1] at 0x10000000");
}

TEST_CASE("rule overlap: C15 Y = A, Z = Y, gA = gY, and gB over one element of A") {
  GemmForward forward = small_forward(kM, kK, kK);
  forward.Y = forward.A;
  check_overlap(forward, "Y", "A");

  forward = full_forward();
  forward.Z = forward.Y;
  check_overlap(forward, "Z", "Y");

  GemmBackward backward = full_backward(kM, kK, kK);
  backward.gA = backward.gY;
  check_overlap(backward, "gA", "gY");

  backward = full_backward();
  backward.gB->tensor.data = static_cast<char*>(backward.A.data) + 4 * (kM * kK - 1);
  check_overlap(backward, "gB", "A");
  backward.gB->tensor.data = static_cast<char*>(backward.A.data) + 4 * kM * kK;
  check_ok(backward);
}

TEST_CASE("rule overlap: one shared element in the middle of strided views is found") {
  GemmForward call = small_forward(2, 2, 2);
  call.A = ai::make_tensor_2d(address(0x1000), {2, 2}, ai::DType::F32, ai::Device::CUDA, 0, 8);
  call.Y = ai::make_tensor_2d(address(0x1000 + 4 * 3), {2, 2}, ai::DType::F32, ai::Device::CUDA, 0,
                              6);  // elements 3 4 | 9 10 against 0 1 | 8 9
  check_overlap(call, "Y", "A");
  call.Y.data = address(0x1000 + 4 * 4);  // 4 5 | 10 11
  check_ok(call);
}

TEST_CASE("rule overlap: a strided bias is compared element by element") {
  GemmForward call = small_forward(4, 3, 2);  // Y is 3 of 4 columns, bias the last column
  call.Y = ai::make_tensor_2d(address(0x1000), {4, 3}, ai::DType::F32, ai::Device::CUDA, 0, 4);
  call.bias = ai::make_tensor_2d(address(0x100c), {4, 1}, ai::DType::F32, ai::Device::CUDA, 0, 4);
  check_ok(call);
  call.bias->data = address(0x1008);
  check_overlap(call, "Y", "bias");
}

TEST_CASE("C15 column halves of one buffer do not overlap") {
  GemmForward call = small_forward(8, 8, 8);
  call.A = ai::make_tensor_2d(address(0x1000), {8, 8}, ai::DType::F32, ai::Device::CUDA, 0, 16);
  call.Y = ai::make_tensor_2d(address(0x1020), {8, 8}, ai::DType::F32, ai::Device::CUDA, 0, 16);
  check_ok(call);
}

TEST_CASE("rule overlap: C15 column halves that share one column overlap") {
  GemmForward call = small_forward(8, 8, 8);
  call.A = ai::make_tensor_2d(address(0x1000), {8, 8}, ai::DType::F32, ai::Device::CUDA, 0, 16);
  call.Y = ai::make_tensor_2d(address(0x101c), {8, 8}, ai::DType::F32, ai::Device::CUDA, 0, 16);
  check_overlap(call, "Y", "A");
}

TEST_CASE("C15 Y may be C itself, and only with the same leading dimension") {
  GemmForward call = full_forward();
  call.C = call.Y;
  check_ok(call);
  call.C->desc.stride = {kN + 1, 1};
  check_overlap(call, "Y", "C");
  call.C = call.Y;
  call.C->data = static_cast<char*>(call.Y.data) + 4;
  check_overlap(call, "Y", "C");
}

TEST_CASE("C15 Y may be C with one row, whatever leading dimension is written") {
  GemmForward call = full_forward(1);
  call.C = call.Y;
  call.C->desc.stride = {99, 1};
  check_ok(call);
}

TEST_CASE("rule overlap: Z may not be C, though Y may") {
  GemmForward call = full_forward();
  call.Z = call.C;
  check_overlap(call, "Z", "C");
}

TEST_CASE("rule overlap: a bias inside Y is found also where Y is C") {
  GemmForward call = full_forward();
  call.C = call.Y;
  call.bias->data = call.Y.data;
  check_overlap(call, "Y", "bias");
}

TEST_CASE("rule overlap: inputs may share memory") {
  GemmForward forward = small_forward(kM, kM, kK);
  forward.attrs.trans_b = true;
  forward.B = forward.A;
  check_ok(forward);
  forward = full_forward();
  forward.C->data = forward.A.data;
  forward.bias->data = forward.A.data;
  check_ok(forward);

  GemmBackward backward = full_backward();
  backward.Z = backward.gY;
  check_ok(backward);
}

TEST_CASE("rule overlap: backward never touches C, so gradients may lie over it") {
  GemmBackward call = full_backward();
  call.C = call.gC->tensor;
  check_ok(call);
}

TEST_CASE(
    "what a call leaves unread is described alone: outputs may lie over it, and it may be null") {
  GemmForward forward = full_forward();
  forward.attrs.alpha = 0.0F;
  forward.A.data = forward.Y.data;
  forward.B.data = nullptr;
  check_ok(plan(forward).status());
  forward.attrs.alpha = 1.0F;
  forward.B = full_forward().B;
  check_overlap(forward, "Y", "A");

  forward = full_forward();
  forward.attrs.beta = 0.0F;
  forward.C->data = forward.Z->data;
  check_ok(plan(forward).status());
  forward.attrs.beta = 1.0F;
  CHECK(plan(forward).status().code() == StatusCode::Overlap);

  GemmBackward backward = full_backward();
  backward.gA.reset();
  backward.B.data = backward.gB->tensor.data;
  check_ok(plan(backward).status());
  backward.gB.reset();
  backward.A.data = nullptr;
  check_ok(plan(backward).status());
  backward = full_backward();
  backward.B.data = backward.gB->tensor.data;
  CHECK(plan(backward).status().code() == StatusCode::Overlap);

  backward = full_backward();
  backward.attrs.act = ai::ActKind::None;
  backward.Z->data = backward.gC->tensor.data;
  check_ok(plan(backward).status());
  backward.attrs.act = ai::ActKind::ReLU;
  CHECK(plan(backward).status().code() == StatusCode::Overlap);
}

TEST_CASE("rule overlap: empty operands overlap nothing") {
  GemmForward call = small_forward(kM, kN, 0);
  call.A.data = call.Y.data;
  call.B.data = call.Y.data;
  check_ok(call);
}

TEST_CASE("rule overlap: symbolic addresses are compared like any other") {
  GemmForward call = small_forward(kM, kN, kN);
  call.A.data = ai::symbolic::allocate(4 * kM * kN);
  call.Y.data = ai::symbolic::allocate(4 * kM * kN);
  check_ok(call);
  call.Y.data = call.A.data;
  check_overlap(call, "Y", "A");
}
