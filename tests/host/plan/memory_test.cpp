#include <limits>

#include "host/plan/plan_support.hpp"

using namespace plan_test;

namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("rule expanded: F5 a stride of 0 is refused for every operand, along either axis") {
  for_each_operand([](Slot& slot) {
    const auto refused = [&](const std::string& what) {
      check_refused(slot.plan(), StatusCode::StrideMismatch,
                    slot.name + " is expanded (" + what + "), expected memory for every element");
    };
    const std::string shape = text(slot.tensor.desc.shape);
    slot.tensor.desc.stride = {100, 0};
    refused(shape + " with strides [100,0]");
    if (slot.is_bias) {
      slot.tensor = vector(11, kN, 0);
      refused("[7] with strides [0]");
      slot.tensor = matrix(11, {kM, 1});
      slot.tensor.desc.stride = {0, 1};
      refused("[5,1] with strides [0,1]");
    } else {
      slot.tensor.desc.stride = {0, 1};
      refused(shape + " with strides [0,1]");
    }
  });
}

TEST_CASE("rule expanded: two elements are enough, one or none are not") {
  GemmForward call = small_forward(2, 2, 0);
  call.A.desc.stride = {0, 0};
  call.B.desc.stride = {0, 0};
  check_ok(call);
  call.Y.desc.stride = {0, 1};
  check_refused(call, StatusCode::StrideMismatch,
                "Y is expanded ([2,2] with strides [0,1]), expected memory for every element");
  call.Y.desc.stride = {2, 0};
  check_refused(call, StatusCode::StrideMismatch,
                "Y is expanded ([2,2] with strides [2,0]), expected memory for every element");
}

TEST_CASE("rule inner_stride: C16 rows of every matrix must be contiguous") {
  for_each_operand([](Slot& slot) {
    if (slot.is_bias) return;
    for (const std::int64_t stride : {2, -1}) {
      slot.tensor.desc.stride = {100, stride};
      check_refused(slot.plan(), StatusCode::StrideMismatch,
                    slot.name + " has strides [100," + std::to_string(stride) +
                        "], expected a stride of 1 along its rows");
    }
  });
}

TEST_CASE("rule inner_stride: F5 a transposed A or B is told about the flag") {
  GemmForward call = small_forward();
  call.A.desc.stride = {1, kM};
  check_refused(call, StatusCode::StrideMismatch,
                "A has strides [1,5], expected a stride of 1 along its rows (or describe its "
                "transpose and flip trans_a)");
  call = small_forward();
  call.B.desc.stride = {1, kK};
  check_refused(call, StatusCode::StrideMismatch,
                "B has strides [1,3], expected a stride of 1 along its rows (or describe its "
                "transpose and flip trans_b)");
  call = small_forward();
  call.Y.desc.stride = {1, kM};
  check_refused(call, StatusCode::StrideMismatch,
                "Y has strides [1,5], expected a stride of 1 along its rows");
}

TEST_CASE("rule leading_dimension: C16 it must be at least the width, for every matrix") {
  for_each_operand([](Slot& slot) {
    if (slot.is_bias) return;
    const std::int64_t cols = slot.tensor.desc.shape[1];
    for (const std::int64_t ld : {cols - 1, std::int64_t{1}, std::int64_t{-100}}) {
      slot.tensor.desc.stride = {ld, 1};
      check_refused(slot.plan(), StatusCode::StrideMismatch,
                    slot.name + " has leading dimension " + std::to_string(ld) +
                        ", expected at least " + std::to_string(cols) + " because it is " +
                        text(slot.tensor.desc.shape));
    }
    slot.tensor.desc.stride = {cols, 1};
    check_ok(slot.plan());
    slot.tensor.desc.stride = {cols + 5, 1};
    check_ok(slot.plan());
  });
}

TEST_CASE("rule leading_dimension: it counts for a single column too") {
  GemmForward call = small_forward(kM, 1, kK);
  call.Y.desc.stride = {-1, 1};
  check_refused(call, StatusCode::StrideMismatch,
                "Y has leading dimension -1, expected at least 1 because it is [5,1]");
  call.Y.desc.stride = {1, 1};
  check_ok(call);
}

TEST_CASE(
    "rule bias_stride: a negative stride of bias or gBias is refused, any positive one is not") {
  for_each_operand([](Slot& slot) {
    if (!slot.is_bias) return;
    slot.tensor = vector(11, kN, -1);
    check_refused(slot.plan(), StatusCode::StrideMismatch,
                  slot.name + " has stride -1, expected at least 1 because it is [7]");
    slot.tensor = matrix(11, {1, kN});
    slot.tensor.desc.stride = {7, -2};
    check_refused(slot.plan(), StatusCode::StrideMismatch,
                  slot.name + " has stride -2, expected at least 1 because it is [1,7]");
    slot.tensor = matrix(11, {kM, 1});
    slot.tensor.desc.stride = {-3, 1};
    check_refused(slot.plan(), StatusCode::StrideMismatch,
                  slot.name + " has stride -3, expected at least 1 because it is [5,1]");
    slot.tensor = vector(11, kN, 13);
    check_ok(slot.plan());
    slot.tensor = vector(11, 1, -1);
    check_ok(slot.plan());
  });
}

TEST_CASE("rule span: C16 every operand's bytes must fit 64 bits") {
  for_each_operand([](Slot& slot) {
    const auto refused = [&] {
      const Status status = slot.plan();
      CHECK(status.code() == StatusCode::Invalid);
      CHECK(status.message().starts_with(slot.name + " is ["));
      CHECK(status.message().ends_with(", expected its bytes to fit 64-bit addresses"));
    };
    const std::int64_t gaps = slot.is_bias ? kN - 1 : slot.tensor.desc.shape[0] - 1;
    const std::int64_t width = slot.is_bias ? 1 : slot.tensor.desc.shape[1];
    const auto set_stride = [&](std::int64_t stride) {
      slot.tensor.desc.stride = slot.is_bias ? Extents{kN, stride} : Extents{stride, 1};
    };
    set_stride(kHuge);  // too many elements before the last row
    refused();
    set_stride(kHuge / 4);  // too many bytes before the last row
    refused();
    const std::int64_t most = (kHuge / 4 - width) / gaps;
    set_stride(most + 1);  // too many bytes with the last row
    refused();
    set_stride(most);
    check_ok(slot.plan());
  });
}

TEST_CASE("rule span: the message describes the operand") {
  GemmForward call = small_forward();
  call.A.desc.stride = {kHuge, 1};
  check_refused(call, StatusCode::Invalid,
                "A is [5,3] with strides [9223372036854775807,1] at 0x10000000, expected its bytes "
                "to fit 64-bit addresses");
}

TEST_CASE("rule span: extents whose product overflows are refused") {
  const std::int64_t m = std::int64_t{1} << 40;
  GemmForward call = small_forward(m, m, 0);
  const Status status = plan(call).status();
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().starts_with("Y is [1099511627776,1099511627776]"));
}

TEST_CASE("rule span: one row longer than 64 bits of bytes is refused") {
  GemmForward call = small_forward(1, std::int64_t{1} << 61, 0);
  const Status status = plan(call).status();
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().starts_with("Y is [1,2305843009213693952]"));
}

TEST_CASE("rule span: extents without elements span nothing, however large") {
  const std::int64_t huge = std::int64_t{1} << 62;
  check_ok(small_forward(huge, 0, 0));
  check_ok(small_forward(0, 0, huge));
}

TEST_CASE("rule span: memory that wraps around the address space is refused") {
  for_each_operand([](Slot& slot) {
    if (slot.is_backward && slot.name == "C") return;
    slot.tensor.data = address(~std::uintptr_t{0} - 15);
    const Status status = slot.plan();
    CHECK(status.code() == StatusCode::Invalid);
    CHECK(status.message().starts_with(slot.name + " is ["));
    CHECK(status.message().ends_with(
        " at 0xfffffffffffffff0, expected its bytes to fit 64-bit addresses"));
  });
}

TEST_CASE("rule span: C5 spans above 2^31 elements are ordinary") {
  GemmForward call = small_forward(134217728, 1, 2);
  call.A = ai::make_tensor_2d(address(std::uintptr_t{1} << 40), {134217728, 2}, ai::DType::F32,
                              ai::Device::CUDA, 0, 16);
  call.Y.data = address(std::uintptr_t{1} << 42);
  check_ok(call);
}

TEST_CASE("rule null_data: null with elements is refused for every operand that is used") {
  for_each_operand([](Slot& slot) {
    const std::string shape = text(slot.tensor.desc.shape);
    slot.tensor.data = nullptr;
    if (slot.is_backward && slot.name == "C") {
      check_ok(slot.plan());  // only described
      return;
    }
    check_refused(slot.plan(), StatusCode::Invalid,
                  slot.name + " is null, expected memory because it is " + shape);
  });
}

TEST_CASE("rule alignment: C13 an address that is no multiple of 4 is refused for every operand") {
  for_each_operand([](Slot& slot) {
    const bool described = slot.is_backward && slot.name == "C";
    for (const std::uintptr_t offset : {1U, 2U, 3U}) {
      slot.tensor.data = address(0x20000000U + offset);
      if (described) {
        check_ok(slot.plan());
      } else {
        check_refused(
            slot.plan(), StatusCode::Invalid,
            slot.name + " is at 0x2000000" + std::to_string(offset) + ", expected a multiple of 4");
      }
    }
  });
}

TEST_CASE("rule alignment: it is asked of operands with elements, also after one without") {
  GemmForward call = small_forward(kM, kN, 0);
  call.A.data = address(0x1001);
  check_ok(call);
  call.Y.data = address(0x2002);
  check_refused(call, StatusCode::Invalid, "Y is at 0x2002, expected a multiple of 4");
}

TEST_CASE("rule alignment: C13 any multiple of 4 will do, with odd leading dimensions") {
  for_each_operand([](Slot& slot) {
    for (const std::uintptr_t offset : {4U, 8U, 12U}) {
      slot.tensor.data = address(0x20000000U + offset);
      if (!slot.is_bias) slot.tensor.desc.stride = {129, 1};
      check_ok(slot.plan());
    }
  });
}
