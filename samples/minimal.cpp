// One layer, Y = relu(A B + bias): planned and captured once, replayed as often as you like.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "ai/ai.hpp"

int main() {
  constexpr int kM = 4, kK = 64, kN = 16;
  const std::vector<float> a(kM * kK, 0.5F), b(kK * kN, 0.25F), bias(kN, -1.0F);
  std::vector<float> y(kM * kN);

  float *A, *B, *Bias, *Y;  // device buffers: yours, and they outlive the executable
  if (cudaMalloc(&A, 4 * a.size()) != cudaSuccess || cudaMalloc(&B, 4 * b.size()) != cudaSuccess ||
      cudaMalloc(&Bias, 4 * bias.size()) != cudaSuccess ||
      cudaMalloc(&Y, 4 * y.size()) != cudaSuccess) {
    std::puts("skipped: no usable GPU");
    return 77;
  }
  cudaMemcpy(A, a.data(), 4 * a.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(B, b.data(), 4 * b.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(Bias, bias.data(), 4 * bias.size(), cudaMemcpyHostToDevice);

  const auto plan = ai::plan_forward({.A = ai::make_tensor_2d(A, {kM, kK}),
                                      .B = ai::make_tensor_2d(B, {kK, kN}),
                                      .bias = ai::make_tensor_1d(Bias, kN),
                                      .Y = ai::make_tensor_2d(Y, {kM, kN}),
                                      .attrs = {.act = ai::ActKind::ReLU}});
  if (!plan.ok()) return std::puts(plan.status().to_string().c_str()), 1;

  ai::Program program;
  if (const auto added = program.add(*plan); !added.ok()) {
    return std::puts(added.to_string().c_str()), 1;
  }
  auto executable = ai::capture(program);
  if (!executable.ok()) return std::puts(executable.status().to_string().c_str()), 1;

  for (int i = 0; i < 1000; ++i) {  // the latency-sensitive loop
    if (!executable->launch().ok()) return 1;
  }
  if (const auto done = executable->wait(); !done.ok()) {
    return std::puts(done.to_string().c_str()), 1;
  }

  cudaMemcpy(y.data(), Y, 4 * y.size(), cudaMemcpyDeviceToHost);
  for (const float value : y) {
    if (value != 64 * 0.5F * 0.25F - 1.0F) return std::puts("wrong result"), 1;
  }
  std::printf("%d x %d outputs, each %g, as they should be\n", kM, kN, static_cast<double>(y[0]));
}
