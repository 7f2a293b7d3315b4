#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "lt_support.hpp"

using namespace lt_test;

TEST_CASE("the bias, the operands and the scratch go through the address map") {
  Fixture f;
  const Matrix l(2, 3), r(3, 4), d(2, 4), bias(1, 4);
  Matrix other_d(2, 4);
  const Matrix other_bias(1, 4, 0, 0, 9);
  const auto step = f.step(
      {.product = product_of(l, r, d), .epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = bias.data()},
      256);
  alignas(256) char scratch[256];
  ai::AddressMap addresses;
  addresses.add(reinterpret_cast<std::uintptr_t>(d.data()), 32, other_d.data());
  addresses.add(reinterpret_cast<std::uintptr_t>(bias.data()), 16, other_bias.data());
  addresses.add(step->writes().at(1).begin, 256, scratch);
  REQUIRE(step->enqueue(addresses, nullptr).ok());
  const fake_lt::Call& call = fake_lt::state().calls.at(0);
  CHECK(call.operation.compute == CUBLAS_COMPUTE_32F_PEDANTIC);
  CHECK(call.operation.scale == CUDA_R_32F);
  CHECK(call.operation.bias == other_bias.data());
  CHECK(call.d_data == other_d.data());
  CHECK(call.c_data == other_d.data());
  CHECK(call.workspace == scratch);
  CHECK(call.workspace_bytes == 256);
  CHECK(call.algorithm == 42);
}

TEST_CASE("an operand that is less aligned than its algorithm was chosen for is refused [B6]") {
  Fixture f;
  const Matrix l(2, 3), r(3, 4), c(2, 4), d(2, 4), bias(1, 4);
  const Matrix shifted(3, 4, 0, 1);
  ai::kernels::LtCall call = {
      .product = product_of(l, r, d), .epilogue = CUBLASLT_EPILOGUE_BIAS, .bias = bias.data()};
  call.product.c = matrix_view(c.tensor());
  call.product.beta = 1.0F;
  const auto step = f.step(call);
  const std::pair<const Matrix*, std::string> operands[] = {
      {&l, "the left operand is 4-byte aligned, expected 256"},
      {&r, "the right operand is 4-byte aligned, expected 256"},
      {&c, "the addend is 4-byte aligned, expected 256"},
      {&d, "the result is 4-byte aligned, expected 256"},
      {&bias, "bias is 4-byte aligned, expected 16"}};
  for (const auto& [operand, message] : operands) {
    CAPTURE(message);
    ai::AddressMap addresses;
    addresses.add(reinterpret_cast<std::uintptr_t>(operand->data()), 4, shifted.data());
    const ai::Status status = step->enqueue(addresses, nullptr);
    CHECK(status.code() == ai::StatusCode::Invalid);
    CHECK(status.message().find(message) == 0);
  }
  CHECK(fake_lt::state().calls.empty());
  CHECK(step->enqueue({}, nullptr).ok());
}

TEST_CASE(
    "preparing a step records it once, relaxed, and reports what cuBLASLt refuses [A1][C12]") {
  Fixture f;
  Matrix l(2, 3), r(3, 4), d(2, 4);
  const auto step = f.step({.product = product_of(l, r, d)});
  SUBCASE("it works") {
    REQUIRE(step->prepare().ok());
    CHECK(fake_lt::state().calls.size() == 1);
    CHECK(fake_device::state().begin_mode == cudaStreamCaptureModeRelaxed);
    CHECK(fake_device::state().calls == std::vector<std::string>{"begin", "end"});
  }
  SUBCASE("it is refused") {
    fake_lt::state().matmul = CUBLAS_STATUS_NOT_SUPPORTED;
    CHECK(step->prepare().code() == ai::StatusCode::Unsupported);
    CHECK(fake_device::state().calls == std::vector<std::string>{"begin", "end"});
  }
  CHECK(fake_device::state().mode == cudaStreamCaptureModeThreadLocal);
}

TEST_CASE("preparing maps symbolic storage to what a GPU could hold, as well aligned [A1]") {
  Fixture f;
  fake_lt::state().computes = false;
  const Matrix l(2, 3), r(3, 4);
  auto* const scratch = static_cast<float*>(ai::symbolic::allocate(32));
  Product product = product_of(l, r, l);
  product.d = ai::kernels::packed(scratch, 2, 4);
  product.c = product.d;
  product.beta = 1.0F;
  REQUIRE(f.step({.product = product}, 256)->prepare().ok());
  REQUIRE(fake_lt::state().calls.size() == 1);
  const fake_lt::Call& call = fake_lt::state().calls[0];
  CHECK(call.a_data == r.data());
  CHECK(call.b_data == l.data());
  CHECK(call.c_data == call.d_data);
  CHECK(call.workspace != call.d_data);
  for (const void* address :
       {static_cast<const void*>(call.d_data), static_cast<const void*>(call.workspace)}) {
    CHECK_FALSE(ai::symbolic::is_symbolic(address));
    CHECK(reinterpret_cast<std::uintptr_t>(address) < std::uintptr_t{1} << 47);
    CHECK(ai::alignment_of(address) == 256);
  }
}
