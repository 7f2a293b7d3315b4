// The direct path where there is no GPU: on CPU tensors, and what it says of CUDA tensors.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ai/capture.hpp"
#include "ai/direct.hpp"

namespace {

using ai::Device;
using ai::DType;
using ai::StatusCode;
using ai::Tensor;

Tensor matrix(std::vector<float>& data, std::int64_t rows, std::int64_t cols) {
  return ai::make_tensor_2d(data.data(), {rows, cols}, DType::F32, Device::CPU);
}
Tensor row(std::vector<float>& data) {
  return ai::make_tensor_1d(data.data(), static_cast<std::int64_t>(data.size()), DType::F32,
                            Device::CPU);
}

/// Y[2,2] = A[2,3] B[3,2].
struct Operands {
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<float> b = {1, 0, 0, 1, 1, 1};
  std::vector<float> bias = {10, -100};
  std::vector<float> y = {1, 1, 1, 1};
  std::vector<float> z = {0, 0, 0, 0};
  Tensor A = matrix(a, 2, 3);
  Tensor B = matrix(b, 3, 2);
  Tensor Bias = row(bias);
  Tensor Y = matrix(y, 2, 2);
  Tensor Z = matrix(z, 2, 2);
};

TEST_CASE("forward on CPU tensors is done when it returns") {
  Operands o;
  CHECK(ai::gemm::forward(o.A, o.B, nullptr, o.Y, {}, nullptr).ok());
  CHECK(o.y == std::vector<float>{4, 5, 10, 11});
  CHECK(ai::gemm::forward(o.A, o.B, &o.Bias, o.Y, {.act = ai::ActKind::ReLU}, nullptr, &o.Z).ok());
  CHECK(o.z == std::vector<float>{14, -95, 20, -89});
  CHECK(o.y == std::vector<float>{14, 0, 20, 0});
}

TEST_CASE("forward with beta and the operands one by one adds to what Y holds, as BLAS does") {
  Operands o;
  CHECK(ai::gemm::forward(o.A, o.B, nullptr, o.Y, {.alpha = 2.0F, .beta = -1.0F}, nullptr).ok());
  CHECK(o.y == std::vector<float>{7, 9, 19, 21});
  std::vector<float> c = {100, 200, 300, 400};
  ai::GemmForward call{.A = o.A, .B = o.B, .C = matrix(c, 2, 2), .Y = o.Y};
  call.attrs.beta = 0.5F;
  CHECK(ai::gemm::forward(call, nullptr).ok());
  CHECK(o.y == std::vector<float>{54, 105, 160, 211});
}

TEST_CASE("backward on CPU tensors writes the gradients that are given") {
  Operands o;
  std::vector<float> gy = {1, 2, 3, 4};
  std::vector<float> ga(6, -1.0F);
  std::vector<float> gb(6, -1.0F);
  std::vector<float> gbias(2, -1.0F);
  o.z = {1, -1, 1, 1};
  const Tensor gY = matrix(gy, 2, 2);
  const Tensor gA = matrix(ga, 2, 3);
  const Tensor gB = matrix(gb, 3, 2);
  const Tensor gBias = row(gbias);
  const ai::GemmAttrs attrs{.act = ai::ActKind::ReLU};
  CHECK(
      ai::gemm::backward(o.A, o.B, nullptr, gY, &o.Z, &gA, nullptr, nullptr, &gBias, attrs, nullptr)
          .ok());
  CHECK(ga == std::vector<float>{1, 0, 1, 3, 4, 7});
  CHECK(gbias == std::vector<float>{4, 4});
  CHECK(gb == std::vector<float>(6, -1.0F));
  ai::GemmBackward call{.A = o.A, .B = o.B, .gY = gY, .Z = o.Z, .attrs = attrs};
  call.gB = ai::Gradient(gB, ai::GradMode::Accumulate);
  CHECK(ai::gemm::backward(call, nullptr).ok());
  CHECK(gb == std::vector<float>{12, 15, 16, 19, 20, 23});
}

TEST_CASE("a direct call names what is wrong with it, GPU or not") {
  Operands o;
  const Tensor wrong = ai::make_tensor_2d(o.b.data(), {2, 2}, DType::F32, Device::CPU);
  ai::Status status = ai::gemm::forward(o.A, wrong, nullptr, o.Y, {}, nullptr);
  CHECK(status.code() == StatusCode::ShapeMismatch);
  CHECK(status.message().starts_with("B is [2,2]"));
  CHECK(ai::gemm::forward(o.A, o.B, nullptr, o.A, {}, nullptr).code() != StatusCode::Ok);
  Tensor far = o.Y;
  far.device = Device::CUDA;
  CHECK(ai::gemm::forward(o.A, o.B, nullptr, far, {}, nullptr).code() ==
        StatusCode::DeviceMismatch);
  status = ai::gemm::forward(o.A, o.B, nullptr, o.Y, {.with_bias = true}, nullptr);
  CHECK(status.code() == StatusCode::MissingInput);
  const Tensor on_gpu = ai::make_tensor_2d(o.a.data(), {2, 3});
  CHECK(ai::gemm::forward(on_gpu, o.B, nullptr, o.Y, {}, nullptr).code() ==
        StatusCode::DeviceMismatch);
}

TEST_CASE("without a GPU a direct call on CUDA tensors says why") {
  const ai::Status available = ai::target_available(ai::Target::CUDA);
  if (available.ok()) return;
  Operands o;
  for (Tensor* tensor : {&o.A, &o.B, &o.Y}) tensor->device = Device::CUDA;
  const ai::Status status = ai::gemm::forward(o.A, o.B, nullptr, o.Y, {}, nullptr);
  CHECK(status.code() == available.code());
  CHECK(status.message() == available.message());
  CHECK(ai::gemm::plan_cache().plans == 0);
  ai::gemm::set_plan_cache_limit(7);
  ai::gemm::set_graph_limit(ai::gemm::plan_cache().graph_limit);
  ai::gemm::clear_plan_cache();
}

}  // namespace
