// One layer, Y = relu(A B + bias): planned and captured once, replayed as often as you like.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "ai/ai.hpp"

namespace {

/// A device buffer with these values: yours, and it must outlive the executable. Null on failure.
float* upload(const std::vector<float>& values) {
  float* data = nullptr;
  const std::size_t bytes = values.size() * sizeof(float);
  if (cudaMalloc(&data, bytes) != cudaSuccess) return nullptr;
  if (cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess) return data;
  (void)cudaFree(data);
  return nullptr;
}

ai::Status run(float* a, float* b, float* bias, float* y, int m, int n, int k,
               cudaStream_t stream) {
  const auto plan = ai::plan_forward({.A = ai::make_tensor_2d(a, {m, k}),
                                      .B = ai::make_tensor_2d(b, {k, n}),
                                      .bias = ai::make_tensor_1d(bias, n),
                                      .Y = ai::make_tensor_2d(y, {m, n}),
                                      .attrs = {.act = ai::ActKind::ReLU}});
  if (!plan.ok()) return plan.status();  // says which operand is wrong, and why

  ai::Program program;
  AI_RETURN_IF_ERROR(program.add(*plan));
  auto executable = ai::capture(program);
  if (!executable.ok()) return executable.status();

  for (int i = 0; i < 1000; ++i) {  // the latency-sensitive loop
    AI_RETURN_IF_ERROR(executable->launch(stream));
  }
  return executable->wait();
}

}  // namespace

int main() {
  constexpr int kM = 4, kK = 64, kN = 16;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
    std::puts("skipped: no usable GPU");
    return 77;
  }
  float* a = upload(std::vector<float>(kM * kK, 0.5F));
  float* b = upload(std::vector<float>(kK * kN, 0.25F));
  float* bias = upload(std::vector<float>(kN, -1.0F));
  float* y = upload(std::vector<float>(kM * kN));
  const ai::Status status = run(a, b, bias, y, kM, kN, kK, stream);
  if (!status.ok()) std::puts(status.to_string().c_str());

  std::vector<float> result(kM * kN);
  bool good = status.ok() && cudaMemcpy(result.data(), y, result.size() * sizeof(float),
                                        cudaMemcpyDeviceToHost) == cudaSuccess;
  for (const float value : result) good = good && value == 64 * 0.5F * 0.25F - 1.0F;
  std::puts(good ? "every output is 7, as it should be" : "something went wrong");
  for (float* data : {a, b, bias, y}) (void)cudaFree(data);
  (void)cudaStreamDestroy(stream);
  return good ? 0 : 1;
}
