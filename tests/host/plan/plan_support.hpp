#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ai/gemm.hpp"

/// Calls over addresses that are never touched: planning reads no memory.
namespace plan_test {

using ai::Extents;
using ai::GemmBackward;
using ai::GemmForward;
using ai::GemmPlan;
using ai::Result;
using ai::Status;
using ai::StatusCode;
using ai::Tensor;

inline constexpr std::int64_t kM = 5;
inline constexpr std::int64_t kN = 7;
inline constexpr std::int64_t kK = 3;

inline void* address(std::uintptr_t value) {
  return reinterpret_cast<void*>(value);
}

/// "[5,7]"
inline std::string text(const Extents& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(shape[i]);
  }
  return out += ']';
}

/// A packed matrix in the i-th of many megabytes, or with row stride `ld`.
inline Tensor matrix(int i, Extents shape, std::int64_t ld = 0) {
  return ai::make_tensor_2d(address(0x10000000U + 0x100000U * static_cast<std::uintptr_t>(i)),
                            shape, ai::DType::F32, ai::Device::CUDA, 0, ld);
}

inline Tensor vector(int i, std::int64_t count, std::int64_t stride = 1) {
  return ai::make_tensor_1d(address(0x10000000U + 0x100000U * static_cast<std::uintptr_t>(i)),
                            count, ai::DType::F32, ai::Device::CUDA, 0, stride);
}

/// A[5,3] B[3,7] and nothing optional.
inline GemmForward small_forward(std::int64_t m = kM, std::int64_t n = kN, std::int64_t k = kK) {
  return {.A = matrix(0, {m, k}), .B = matrix(1, {k, n}), .Y = matrix(4, {m, n})};
}

/// Every operand, C and bias[1,N] among them.
inline GemmForward full_forward(std::int64_t m = kM, std::int64_t n = kN, std::int64_t k = kK) {
  GemmForward call = small_forward(m, n, k);
  call.C = matrix(2, {m, n});
  call.bias = matrix(3, {1, n});
  call.Z = matrix(5, {m, n});
  call.attrs.beta = 1.0F;
  call.attrs.act = ai::ActKind::LeakyReLU;
  return call;
}

/// gA alone, no activation.
inline GemmBackward small_backward(std::int64_t m = kM, std::int64_t n = kN, std::int64_t k = kK) {
  return {.A = matrix(0, {m, k}),
          .B = matrix(1, {k, n}),
          .gY = matrix(6, {m, n}),
          .gA = matrix(7, {m, k})};
}

/// Every operand and every gradient, gBias[1,N].
inline GemmBackward full_backward(std::int64_t m = kM, std::int64_t n = kN, std::int64_t k = kK) {
  GemmBackward call = small_backward(m, n, k);
  call.C = matrix(2, {m, n});
  call.Z = matrix(5, {m, n});
  call.gB = matrix(8, {k, n});
  call.gC = matrix(9, {m, n});
  call.gBias = matrix(10, {1, n});
  call.attrs.beta = 1.0F;
  call.attrs.act = ai::ActKind::LeakyReLU;
  return call;
}

inline Result<GemmPlan> plan(const GemmForward& call) {
  return ai::plan_forward(call);
}
inline Result<GemmPlan> plan(const GemmBackward& call) {
  return ai::plan_backward(call);
}

/// One operand of a full call, open to change, and the plan of the call it belongs to.
struct Slot {
  std::string name;
  bool is_bias;
  bool is_output;
  bool is_backward;
  Tensor& tensor;
  std::function<Status()> plan;
};

/// Calls `visit` with each operand of a full forward and a full backward call, each time a fresh
/// one.
inline void for_each_operand(const std::function<void(Slot&)>& visit) {
  struct Forward {
    const char* name;
    bool is_output;
    Tensor& (*get)(GemmForward&);
  };
  const std::vector<Forward> forward = {
      {"A", false, [](GemmForward& c) -> Tensor& { return c.A; }},
      {"B", false, [](GemmForward& c) -> Tensor& { return c.B; }},
      {"C", false, [](GemmForward& c) -> Tensor& { return *c.C; }},
      {"bias", false, [](GemmForward& c) -> Tensor& { return *c.bias; }},
      {"Y", true, [](GemmForward& c) -> Tensor& { return c.Y; }},
      {"Z", true, [](GemmForward& c) -> Tensor& { return *c.Z; }},
  };
  for (const Forward& entry : forward) {
    GemmForward call = full_forward();
    Slot slot{entry.name,      entry.name == std::string_view("bias"),
              entry.is_output, false,
              entry.get(call), [&] { return ai::plan_forward(call).status(); }};
    INFO("forward, operand ", slot.name);
    visit(slot);
  }
  struct Backward {
    const char* name;
    bool is_output;
    Tensor& (*get)(GemmBackward&);
  };
  const std::vector<Backward> backward = {
      {"A", false, [](GemmBackward& c) -> Tensor& { return c.A; }},
      {"B", false, [](GemmBackward& c) -> Tensor& { return c.B; }},
      {"C", false, [](GemmBackward& c) -> Tensor& { return *c.C; }},
      {"gY", false, [](GemmBackward& c) -> Tensor& { return c.gY; }},
      {"Z", false, [](GemmBackward& c) -> Tensor& { return *c.Z; }},
      {"gA", true, [](GemmBackward& c) -> Tensor& { return c.gA->tensor; }},
      {"gB", true, [](GemmBackward& c) -> Tensor& { return c.gB->tensor; }},
      {"gC", true, [](GemmBackward& c) -> Tensor& { return c.gC->tensor; }},
      {"gBias", true, [](GemmBackward& c) -> Tensor& { return c.gBias->tensor; }},
  };
  for (const Backward& entry : backward) {
    GemmBackward call = full_backward();
    Slot slot{entry.name,      entry.name == std::string_view("gBias"),
              entry.is_output, true,
              entry.get(call), [&] { return ai::plan_backward(call).status(); }};
    INFO("backward, operand ", slot.name);
    visit(slot);
  }
}

/// The code and the whole sentence.
inline void check_refused(const Status& status, StatusCode code, const std::string& message) {
  CHECK(status.to_string() == std::string(ai::to_string(code)) + ": " + message);
}

template <typename Call>
void check_refused(const Call& call, StatusCode code, const std::string& message) {
  check_refused(plan(call).status(), code, message);
}

inline void check_ok(const Status& status) {
  CHECK(status.to_string() == "Ok");
}

template <typename Call>
void check_ok(const Call& call) {
  check_ok(plan(call).status());
}

}  // namespace plan_test
