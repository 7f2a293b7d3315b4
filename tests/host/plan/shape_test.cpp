#include "host/plan/plan_support.hpp"

using namespace plan_test;
using ai::Device;
using ai::DType;
using ai::Layout;

TEST_CASE("rule device_kind: a value outside Device is refused for every operand") {
  for_each_operand([](Slot& slot) {
    slot.tensor.device = static_cast<Device>(2);
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " is on device kind 2, expected Device::CPU or CUDA");
  });
}

TEST_CASE("rule device_index: a negative index is refused for every operand") {
  for_each_operand([](Slot& slot) {
    slot.tensor.device_index = -1;
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " has device index -1, expected 0 or more");
  });
}

TEST_CASE("rule device: every operand must be on A's device and index") {
  for_each_operand([](Slot& slot) {
    if (slot.name == "A") return;
    slot.tensor.device_index = 1;
    check_refused(slot.plan(), StatusCode::DeviceMismatch,
                  slot.name + " is on CUDA:1, expected CUDA:0 because A is there");
    slot.tensor.device_index = 0;
    slot.tensor.device = Device::CPU;
    check_refused(slot.plan(), StatusCode::DeviceMismatch,
                  slot.name + " is on CPU:0, expected CUDA:0 because A is there");
  });
}

TEST_CASE("rule device: an A elsewhere shows in the next operand") {
  GemmForward call = small_forward();
  call.A.device_index = 3;
  check_refused(call, StatusCode::DeviceMismatch,
                "B is on CUDA:0, expected CUDA:3 because A is there");
}

TEST_CASE("rule device: a call wholly on the CPU or on a later GPU is planned for it") {
  GemmForward call = small_forward();
  for (Tensor* tensor : {&call.A, &call.B, &call.Y}) tensor->device = Device::CPU;
  Result<GemmPlan> planned = plan(call);
  REQUIRE(planned.ok());
  CHECK(planned->device() == Device::CPU);
  for (Tensor* tensor : {&call.A, &call.B, &call.Y}) {
    tensor->device = Device::CUDA;
    tensor->device_index = 5;
  }
  planned = plan(call);
  REQUIRE(planned.ok());
  CHECK(planned->device() == Device::CUDA);
  CHECK(planned->device_index() == 5);
}

TEST_CASE("rule dtype_kind: a value outside DType is refused for every operand") {
  for_each_operand([](Slot& slot) {
    slot.tensor.desc.dtype = static_cast<DType>(17);
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " has dtype 17, expected one of DType");
  });
}

TEST_CASE("rule dtype: every operand must be F32") {
  for_each_operand([](Slot& slot) {
    for (const DType dtype : {DType::F16, DType::BF16, DType::I32, DType::I8}) {
      slot.tensor.desc.dtype = dtype;
      check_refused(slot.plan(), StatusCode::DtypeMismatch,
                    slot.name + " is " + ai::to_string(dtype) + ", expected F32");
    }
  });
}

TEST_CASE("rule layout_kind: a value outside Layout is refused for every operand") {
  for_each_operand([](Slot& slot) {
    slot.tensor.desc.layout = static_cast<Layout>(-4);
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " has layout -4, expected one of Layout");
  });
}

TEST_CASE("rule layout: every operand must be RowMajor") {
  for_each_operand([](Slot& slot) {
    slot.tensor.desc.layout = Layout::ColMajor;
    check_refused(slot.plan(), StatusCode::LayoutMismatch,
                  slot.name + " is ColMajor, expected RowMajor");
  });
}

TEST_CASE("rule rank: matrices have rank 2, bias and gBias rank 1 or 2") {
  for_each_operand([](Slot& slot) {
    const std::string wanted = slot.is_bias ? "1 or 2" : "2";
    slot.tensor.desc.shape = {1, 5, 7};
    slot.tensor.desc.stride = {35, 7, 1};
    check_refused(slot.plan(), StatusCode::ShapeMismatch,
                  slot.name + " is [1,5,7] of rank 3, expected rank " + wanted);
    slot.tensor.desc.shape = {1, 2, 3, 4, 5};
    slot.tensor.desc.stride = {120, 60, 20, 5, 1};
    check_refused(slot.plan(), StatusCode::ShapeMismatch,
                  slot.name + " is [1,2,3,4,...] of rank 5, expected rank " + wanted);
    slot.tensor.desc.shape = {};
    slot.tensor.desc.stride = {};
    check_refused(slot.plan(), StatusCode::ShapeMismatch,
                  slot.name + " is [] of rank 0, expected rank " + wanted);
    if (slot.is_bias) return;
    slot.tensor.desc.shape = {7};
    slot.tensor.desc.stride = {1};
    check_refused(slot.plan(), StatusCode::ShapeMismatch,
                  slot.name + " is [7] of rank 1, expected rank 2");
  });
}

TEST_CASE("rule stride_rank: every operand needs one stride an extent") {
  for_each_operand([](Slot& slot) {
    const std::string shape = text(slot.tensor.desc.shape);
    slot.tensor.desc.stride = {};
    check_refused(slot.plan(), StatusCode::StrideMismatch,
                  slot.name + " has strides [], expected 2 because it is " + shape);
    slot.tensor.desc.stride = {100, 1, 1};
    check_refused(slot.plan(), StatusCode::StrideMismatch,
                  slot.name + " has strides [100,1,1], expected 2 because it is " + shape);
  });
}

TEST_CASE("rule extents: a negative extent is refused for every operand") {
  for_each_operand([](Slot& slot) {
    slot.tensor.desc.shape = {-5, 7};
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " is [-5,7], expected no negative extent");
    slot.tensor.desc.shape = {5, -7};
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " is [5,-7], expected no negative extent");
  });
}

TEST_CASE("rule extents: extents that are negative together are refused, not called empty") {
  GemmForward call = small_forward(-1, kN, kK);
  check_refused(call, StatusCode::Invalid, "A is [-1,3], expected no negative extent");
}

TEST_CASE("rule shape: the message gives the extents and the operands they come from") {
  GemmForward call = {
      .A = matrix(0, {64, 256}), .B = matrix(1, {128, 192}), .Y = matrix(4, {64, 192})};
  check_refused(call, StatusCode::ShapeMismatch,
                "B is [128,192], expected [256,N] because A is [64,256]");
  call.attrs.trans_b = true;
  check_refused(call, StatusCode::ShapeMismatch,
                "B is [128,192], expected [N,256] because A is [64,256]");
  call.attrs.trans_a = true;
  check_refused(call, StatusCode::ShapeMismatch,
                "B is [128,192], expected [N,64] because A is [64,256] with trans_a");
  call.attrs.trans_b = false;
  call.B = matrix(1, {64, 192});
  check_refused(call, StatusCode::ShapeMismatch,
                "Y is [64,192], expected [256,192] because A is [64,256] with trans_a and B is "
                "[64,192]");
}

TEST_CASE("rule shape: every matrix is checked along both axes") {
  for_each_operand([](Slot& slot) {
    if (slot.is_bias || slot.name == "A" || slot.name == "B") return;
    const Extents shape = slot.tensor.desc.shape;
    const std::string reason = slot.name == "gA"   ? "[5,3] because A is [5,3]"
                               : slot.name == "gB" ? "[3,7] because A is [5,3] and B is [3,7]"
                                                   : "[5,7] because A is [5,3] and B is [3,7]";
    for (const int axis : {0, 1}) {
      Extents wrong = shape;
      wrong[axis] += 1;
      slot.tensor = matrix(11, wrong);
      check_refused(slot.plan(), StatusCode::ShapeMismatch,
                    slot.name + " is " + text(wrong) + ", expected " + reason);
    }
  });
}

TEST_CASE("rule shape: backward, a B that does not fit A is refused") {
  GemmBackward call = full_backward();
  call.B = matrix(1, {kK + 1, kN});
  check_refused(call, StatusCode::ShapeMismatch, "B is [4,7], expected [3,N] because A is [5,3]");
}

TEST_CASE("rule shape: gA and gB are stored as A and B are") {
  GemmBackward call = full_backward();
  call.attrs.trans_a = true;
  call.attrs.trans_b = true;
  call.A = matrix(0, {kK, kM});
  call.B = matrix(1, {kN, kK});
  check_refused(call, StatusCode::ShapeMismatch,
                "gA is [5,3], expected [3,5] because A is [3,5] with trans_a");
  call.gA = matrix(7, {kK, kM});
  check_refused(call, StatusCode::ShapeMismatch,
                "gB is [3,7], expected [7,3] because A is [3,5] with trans_a and B is [7,3] with "
                "trans_b");
  call.gB = matrix(8, {kN, kK});
  check_ok(call);
}

TEST_CASE("rule bias_shape: a bias or gBias that fits no kind is refused") {
  for_each_operand([](Slot& slot) {
    if (!slot.is_bias) return;
    const std::string reason = std::string(
                                   ", expected [1], [7], [5], [1,1], [1,7] or [5,1] "
                                   "because ") +
                               (slot.is_backward ? "gY" : "Y") + " is [5,7]";
    slot.tensor = vector(11, 4);
    check_refused(slot.plan(), StatusCode::ShapeMismatch, slot.name + " is [4]" + reason);
    for (const Extents& shape : {Extents{7, 1}, Extents{1, 5}, Extents{5, 7}, Extents{1, 0},
                                 Extents{0, 1}, Extents{2, 1}}) {
      slot.tensor = matrix(11, shape);
      check_refused(slot.plan(), StatusCode::ShapeMismatch,
                    slot.name + " is " + text(shape) + reason);
    }
  });
}

TEST_CASE("rule bias_shape: the message offers each vector once where M = N") {
  GemmForward call = small_forward(6, 6, 2);
  call.bias = vector(3, 5);
  check_refused(call, StatusCode::ShapeMismatch,
                "bias is [5], expected [1], [6], [1,1], [1,6] or [6,1] because Y is [6,6]");
}
