// A control loop at batch 1. The observation lies in pinned host memory; one launch copies it to
// the GPU, runs the policy and copies the action back; one wait later the plant has it. The same
// program runs over ordinary memory where there is no GPU.
#if CONTROL_STEP_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "ai/ai.hpp"

namespace {

constexpr int kObservation = 12, kHidden = 64, kAction = 4;
constexpr int kSteps = 2000;

/// The loop's buffers, which must outlive its executables.
class Memory {
 public:
  explicit Memory(bool on_gpu) : on_gpu_(on_gpu) {}

  /// A matrix that the CPU reads and writes; pinned where the GPU is to read and write it too.
  [[nodiscard]] ai::Tensor host(int rows, int cols) { return matrix(rows, cols, ai::Device::CPU); }
  [[nodiscard]] ai::Tensor device(int rows, int cols) { return matrix(rows, cols, device()); }
  [[nodiscard]] ai::Device device() const { return on_gpu_ ? ai::Device::CUDA : ai::Device::CPU; }
  [[nodiscard]] bool good() const { return good_; }

 private:
  using Block = std::unique_ptr<void, void (*)(void*)>;
  ai::Tensor matrix(int rows, int cols, ai::Device device) {
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * sizeof(float);
    blocks_.push_back(on_gpu_ ? on_gpu(bytes, device) : Block(std::malloc(bytes), std::free));
    good_ = good_ && blocks_.back() != nullptr;
    return ai::make_tensor_2d(blocks_.back().get(), {rows, cols}, ai::DType::F32, device);
  }
  static Block on_gpu(std::size_t bytes, ai::Device device) {
    void* data = nullptr;
#if CONTROL_STEP_WITH_CUDA
    if (device == ai::Device::CUDA) {
      (void)cudaMalloc(&data, bytes);
      return {data, [](void* p) { (void)cudaFree(p); }};
    }
    (void)cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
    return {data, [](void* p) { (void)cudaFreeHost(p); }};
#else
    (void)bytes, (void)device;
    return {data, std::free};
#endif
  }

  bool on_gpu_;
  bool good_ = true;
  std::vector<Block> blocks_;
};

float* values(const ai::Tensor& tensor) {
  return static_cast<float*>(tensor.data);
}

/// A layer's weights, where the kernels read them and where the CPU makes them.
struct Layer {
  ai::Tensor weight;
  ai::Tensor initial;
};

Layer make_layer(Memory& memory, int inputs, int outputs, std::uint32_t& seed) {
  const Layer layer{memory.device(inputs, outputs), memory.host(inputs, outputs)};
  const float scale = 1.5F / std::sqrt(static_cast<float>(inputs));
  for (int i = 0; memory.good() && i < inputs * outputs; ++i) {
    seed = seed * 1664525U + 1013904223U;
    values(layer.initial)[i] = scale * (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F);
  }
  return layer;
}

/// Brings the weights to the device: a program of copies, launched once.
ai::Status upload(const std::vector<Layer>& layers, ai::Stream stream) {
  ai::Program program;
  for (const Layer& layer : layers) {
    AI_RETURN_IF_ERROR(program.copy_in(layer.initial, layer.weight));
  }
  auto executable = ai::capture(program);
  if (!executable.ok()) return executable.status();
  AI_RETURN_IF_ERROR(executable->launch(stream));
  return executable->wait();
}

/// action = tanh(tanh(tanh(observation W1) W2) W3). What lies between is the library's own.
ai::Result<ai::Executable> capture_policy(const std::vector<Layer>& layers, ai::Device device,
                                          const ai::Tensor& observation, const ai::Tensor& action) {
  ai::Program program;
  auto x = program.temporary(observation.desc, device);
  if (!x.ok()) return x.status();
  AI_RETURN_IF_ERROR(program.copy_in(observation, *x));
  for (const Layer& layer : layers) {
    ai::TensorDesc desc;
    desc.shape = {1, layer.weight.desc.shape[1]};
    auto y = program.temporary(desc, device);
    if (!y.ok()) return y.status();
    const auto plan = ai::plan_forward(
        {.A = *x, .B = layer.weight, .Y = *y, .attrs = {.act = ai::ActKind::Tanh}});
    if (!plan.ok()) return plan.status();
    AI_RETURN_IF_ERROR(program.add(*plan));
    x = y;
  }
  AI_RETURN_IF_ERROR(program.copy_out(*x, action));
  return ai::capture(program);
}

/// Six damped oscillators, each position followed by its velocity, pushed by the actions.
void move_plant(float* state, const float* action) {
  constexpr float kTimeStep = 0.02F;
  for (int i = 0; i < kObservation / 2; ++i) {
    float* const x = state + 2 * i;
    x[1] += kTimeStep * (action[i % kAction] - static_cast<float>(1 + i) * x[0] - 0.2F * x[1]);
    x[0] += kTimeStep * x[1];
  }
}

/// The largest distance of `action` from what plain loops make of the observation.
double policy_error(const std::vector<Layer>& layers, const float* observation,
                    const float* action) {
  std::vector<double> x(observation, observation + kObservation);
  for (const Layer& layer : layers) {
    std::vector<double> y(static_cast<std::size_t>(layer.weight.desc.shape[1]));
    for (std::size_t j = 0; j < y.size(); ++j) {
      double sum = 0.0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        sum += x[k] * values(layer.initial)[k * y.size() + j];
      }
      y[j] = std::tanh(sum);
    }
    x = y;
  }
  double worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(x[i] - action[i]));
  return worst;
}

ai::Status run(Memory& memory, ai::Stream stream) {
  std::uint32_t seed = 2026;
  const std::vector<Layer> layers{make_layer(memory, kObservation, kHidden, seed),
                                  make_layer(memory, kHidden, kHidden, seed),
                                  make_layer(memory, kHidden, kAction, seed)};
  const ai::Tensor observation = memory.host(1, kObservation);
  const ai::Tensor action = memory.host(1, kAction);
  if (!memory.good()) return {ai::StatusCode::OutOfMemory, "the buffers could not be allocated"};
  AI_RETURN_IF_ERROR(upload(layers, stream));
  auto policy = capture_policy(layers, memory.device(), observation, action);
  if (!policy.ok()) return policy.status();

  std::fill_n(values(observation), kObservation, 1.0F);
  std::vector<double> microseconds;
  double worst = 0.0;
  for (int step = -200; step < kSteps; ++step) {  // the first 200 only warm up
    const auto start = std::chrono::steady_clock::now();
    AI_RETURN_IF_ERROR(policy->launch(stream));
    AI_RETURN_IF_ERROR(policy->wait());  // only now is `action` complete and `observation` ours
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (step < 0) continue;
    microseconds.push_back(took.count());
    worst = std::max(worst, policy_error(layers, values(observation), values(action)));
    move_plant(values(observation), values(action));
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%d steps on %s: launch and wait p50 %.2f us, p99 %.2f us, p99.9 %.2f us\n", kSteps,
              ai::to_string(policy->target()), microseconds[kSteps / 2],
              microseconds[kSteps * 99 / 100], microseconds[kSteps * 999 / 1000]);
  std::printf("largest error of an action: %.1e\nfinal state:", worst);
  for (int i = 0; i < kObservation; ++i) std::printf(" %.4f", double{values(observation)[i]});
  std::puts("");
  if (worst < 1e-5) return {};
  return {ai::StatusCode::Invalid, "the policy is not what plain loops compute"};
}

}  // namespace

// usage: control_step [host|cuda]; by itself the GPU where there is one.
int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  const ai::Status available = ai::target_available(ai::Target::CUDA);
  const bool on_gpu = wanted != "host" && available.ok();
  if (wanted == "cuda" && !on_gpu) {
    std::printf("skipped: %s\n", available.to_string().c_str());
    return 77;
  }
  ai::Stream stream = nullptr;  // the default stream would do; one of your own is quicker
#if CONTROL_STEP_WITH_CUDA
  if (on_gpu) (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
#endif
  Memory memory(on_gpu);
  const ai::Status status = run(memory, stream);
  if (!status.ok()) std::puts(status.to_string().c_str());
#if CONTROL_STEP_WITH_CUDA
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
#endif
  return status.ok() ? 0 : 1;
}
