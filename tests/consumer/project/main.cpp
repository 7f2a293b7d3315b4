#include <ai/ai.hpp>

int main() {
  float a[] = {1.0F, 2.0F}, b[] = {3.0F, 4.0F}, y[] = {0.0F};
  const auto cpu = [](float* data, ai::Extents shape) {
    return ai::make_tensor_2d(data, shape, ai::DType::F32, ai::Device::CPU);
  };
  const auto plan =
      ai::plan_forward({.A = cpu(a, {1, 2}), .B = cpu(b, {2, 1}), .Y = cpu(y, {1, 1})});
  ai::Program program;
  if (!plan.ok() || !program.add(*plan).ok()) return 1;
  auto executable = ai::capture(program);
  return executable.ok() && executable->launch().ok() && y[0] == 11.0F ? 0 : 2;
}
